"""How much memory models take, and whether there is enough."""
