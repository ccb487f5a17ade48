"""A whole demonstration in one process, without ROS."""
