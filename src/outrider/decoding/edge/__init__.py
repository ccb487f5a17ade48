"""The robot's state machine: it drafts, sends, and settles verdicts."""
