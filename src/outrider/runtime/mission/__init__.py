"""One goal from a sentence to its result."""
