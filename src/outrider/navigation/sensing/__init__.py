# SPDX-License-Identifier: Apache-2.0
"""Checks sensors for faults and describes the surroundings from their measurements."""
