"""DRAGON and its baselines, compared on the virtual clock and over sockets."""
