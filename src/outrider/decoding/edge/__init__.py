# SPDX-License-Identifier: Apache-2.0
"""The robot's state machine: it drafts, sends, and settles verdicts."""
