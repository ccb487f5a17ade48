"""One goal: its instruction, its history, and the way to it."""
