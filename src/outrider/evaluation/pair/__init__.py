# SPDX-License-Identifier: Apache-2.0
"""What the shipped pair does: latency, losslessness, exits, and drafts by retrieval."""
