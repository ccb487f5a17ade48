# SPDX-License-Identifier: Apache-2.0
"""One goal: its instruction, its history, and the path to it."""
