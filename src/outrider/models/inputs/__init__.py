"""From pictures to what the backbone reads."""
