# SPDX-License-Identifier: Apache-2.0
"""Processes killed, frozen and ended while the robot drives, with the real parts."""
