"""Weights of fewer bits, and the products that use them."""
