"""Sentences and words: what people say about memory, and how it answers."""
