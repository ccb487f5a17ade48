# SPDX-License-Identifier: Apache-2.0
"""Where drafts come from: the token tree, its expansion, and retrieval."""
