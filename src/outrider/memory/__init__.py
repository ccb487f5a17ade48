# SPDX-License-Identifier: Apache-2.0
"""What the robot remembers: an embedded store with hybrid search, and how people speak with it."""
