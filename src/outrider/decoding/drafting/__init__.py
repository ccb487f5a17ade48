"""Where drafts come from: the token tree, its expansion, and retrieval."""
