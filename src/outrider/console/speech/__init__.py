# SPDX-License-Identifier: Apache-2.0
"""Speech between a page and the robot's side."""
