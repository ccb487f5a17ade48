# SPDX-License-Identifier: Apache-2.0
"""Whether sensors tell the truth, and what they say about the surroundings."""
