# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoint folders in their published formats."""
