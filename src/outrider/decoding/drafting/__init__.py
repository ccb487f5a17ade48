# SPDX-License-Identifier: Apache-2.0
"""Sources of drafts: the token tree, its expansion, and retrieval."""
