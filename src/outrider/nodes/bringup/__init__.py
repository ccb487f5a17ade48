# SPDX-License-Identifier: Apache-2.0
"""Starting the graph, and judging what runs."""
