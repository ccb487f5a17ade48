# SPDX-License-Identifier: Apache-2.0
"""Runs the machines over links: in one process, or over sockets."""
