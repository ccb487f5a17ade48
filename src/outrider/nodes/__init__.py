"""Thin ROS 2 nodes: each converts, delegates and publishes."""
