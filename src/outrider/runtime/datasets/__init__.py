"""Training data, and training runs from data to model folder."""
