# SPDX-License-Identifier: Apache-2.0
"""The Unitree Go2: its services, its state, and a simulated one."""
