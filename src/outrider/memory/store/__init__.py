"""The embedded store: its file, rows, indexes and search."""
