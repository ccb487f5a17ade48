# SPDX-License-Identifier: Apache-2.0
"""Converts pictures into the backbone's input."""
