# SPDX-License-Identifier: Apache-2.0
"""A complete demonstration in one process, without ROS."""
