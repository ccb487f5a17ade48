# SPDX-License-Identifier: Apache-2.0
"""Sentences and words: what people say about memory, and how it answers."""
