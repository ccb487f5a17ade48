# SPDX-License-Identifier: Apache-2.0
"""Two peers write one text, each with its own documents: DRAGON's speculative aggregation."""
