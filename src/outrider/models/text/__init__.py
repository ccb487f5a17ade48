"""Tokens: the tokenizer, the layout of a prompt, and the ends of texts."""
