# SPDX-License-Identifier: Apache-2.0
"""Measures speech recognition, with synthetic speech."""
