"""What models cost: steps, verifications, precisions, static graphs."""
