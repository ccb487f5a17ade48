# SPDX-License-Identifier: Apache-2.0
"""Printed words in simulated homes: checks that text in the camera's view does not move the robot."""
