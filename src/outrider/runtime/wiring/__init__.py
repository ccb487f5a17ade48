# SPDX-License-Identifier: Apache-2.0
"""Builds decoders, verifiers and memories from plain settings."""
