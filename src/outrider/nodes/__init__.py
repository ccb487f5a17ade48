# SPDX-License-Identifier: Apache-2.0
"""Thin ROS 2 nodes: each converts, delegates and publishes."""
