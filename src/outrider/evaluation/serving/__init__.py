# SPDX-License-Identifier: Apache-2.0
"""Measures many robots on one verifier."""
