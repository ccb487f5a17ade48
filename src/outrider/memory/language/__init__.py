# SPDX-License-Identifier: Apache-2.0
"""Sentences and words: what people say about the memory, and its answers."""
