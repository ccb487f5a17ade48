"""Drafts that cost no model: text that stood somewhere before is proposed again."""
