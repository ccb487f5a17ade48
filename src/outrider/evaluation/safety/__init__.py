# SPDX-License-Identifier: Apache-2.0
"""Faults injected while the robot drives: how soon does it stand, and how does its goal end?"""
