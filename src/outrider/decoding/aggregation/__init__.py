# SPDX-License-Identifier: Apache-2.0
"""Two peers write one text, each with documents of its own: DRAGON's speculative aggregation."""
