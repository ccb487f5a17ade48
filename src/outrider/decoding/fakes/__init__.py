# SPDX-License-Identifier: Apache-2.0
"""Models that implement the real ports: toys, synthetic pairs, and replays."""
