# SPDX-License-Identifier: Apache-2.0
"""Sentences understood as plans, and plans carried out step by step."""
