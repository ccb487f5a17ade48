# SPDX-License-Identifier: Apache-2.0
"""The console through a relay: the robot dials out to it, and people open the robot's page there."""
