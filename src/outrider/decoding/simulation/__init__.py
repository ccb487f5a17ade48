# SPDX-License-Identifier: Apache-2.0
"""Runs the machines on a virtual clock: deterministic, seeded schedules."""
