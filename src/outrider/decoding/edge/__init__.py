# SPDX-License-Identifier: Apache-2.0
"""The robot's state machine: it drafts, sends drafts, and handles verdicts."""
