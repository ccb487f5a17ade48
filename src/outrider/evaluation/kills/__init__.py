# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, frozen or ended while the robot drives, with the real parts."""
