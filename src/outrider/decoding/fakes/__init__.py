"""Models that implement the real ports: toys, synthetic pairs, and replays."""
