"""Whether sensors tell the truth, and what they say about the surroundings."""
