# SPDX-License-Identifier: Apache-2.0
"""What is under way of agents' calls: sentences that are read, and calls that may be taken back."""
