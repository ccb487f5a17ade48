# SPDX-License-Identifier: Apache-2.0
"""Drafts without a model: text that occurred before is proposed again."""
