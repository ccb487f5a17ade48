# SPDX-License-Identifier: Apache-2.0
"""Tokens: the tokenizer, the layout of a prompt, and the ends of texts."""
