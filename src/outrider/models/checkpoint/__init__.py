"""Reads checkpoint folders in the formats in which they are published."""
