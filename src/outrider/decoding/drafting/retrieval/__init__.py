# SPDX-License-Identifier: Apache-2.0
"""Drafts that cost no model: text that stood somewhere before is proposed again."""
