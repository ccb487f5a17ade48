# SPDX-License-Identifier: Apache-2.0
"""From verified text to safe motion; no ROS, no model, no clock of its own."""
