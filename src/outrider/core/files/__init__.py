"""Files that are written whole or not at all, for their owner alone; and what a terminal shows."""
