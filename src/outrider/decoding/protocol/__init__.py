"""What both sides must agree on: digests, encoded branches, refusals, limits and retries."""
