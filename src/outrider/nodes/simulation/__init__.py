# SPDX-License-Identifier: Apache-2.0
"""The simulated robot, in MuJoCo and in Gazebo."""
