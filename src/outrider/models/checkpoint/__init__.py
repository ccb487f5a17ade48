# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoint folders in the formats in which they are published."""
