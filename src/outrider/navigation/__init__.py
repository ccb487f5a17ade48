# SPDX-License-Identifier: Apache-2.0
"""Turns verified text into safe motion, without ROS, models or a clock of its own."""
