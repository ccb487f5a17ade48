# SPDX-License-Identifier: Apache-2.0
"""Understands sentences as plans, and carries plans out step by step."""
