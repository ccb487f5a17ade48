# SPDX-License-Identifier: Apache-2.0
"""A whole demonstration in one process, without ROS."""
