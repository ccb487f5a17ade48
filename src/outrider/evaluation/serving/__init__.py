# SPDX-License-Identifier: Apache-2.0
"""Many robots on one verifier."""
