"""What the robot remembers: an embedded store with hybrid search, and how people speak with it."""
