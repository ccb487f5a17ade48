# SPDX-License-Identifier: Apache-2.0
"""The embedded store: its file, rows, indexes and search."""
