"""Many robots on one verifier."""
