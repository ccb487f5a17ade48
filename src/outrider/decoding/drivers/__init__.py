# SPDX-License-Identifier: Apache-2.0
"""Runs the state machines over links, in one process or over sockets."""
