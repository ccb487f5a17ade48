# SPDX-License-Identifier: Apache-2.0
"""Printed words in simulated homes: whether what the camera reads moves the robot as nobody asked for."""
