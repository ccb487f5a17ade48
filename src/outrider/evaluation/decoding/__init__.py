"""Strategies compared under the papers' conditions, and what each mechanism is worth."""
