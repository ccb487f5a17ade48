"""What the shipped pair does: latency, losslessness, exits, and drafts by retrieval."""
