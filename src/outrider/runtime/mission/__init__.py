# SPDX-License-Identifier: Apache-2.0
"""One goal from a sentence to its result."""
