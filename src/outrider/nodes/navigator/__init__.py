"""The navigator, what it serves, and who asks it."""
