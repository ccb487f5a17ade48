# SPDX-License-Identifier: Apache-2.0
"""Puts decoders, verifiers and memories together from plain settings."""
