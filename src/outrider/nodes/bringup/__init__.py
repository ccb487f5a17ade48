"""Starting the graph, and judging what runs."""
