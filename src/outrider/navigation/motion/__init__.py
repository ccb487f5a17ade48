# SPDX-License-Identifier: Apache-2.0
"""From verified text to bounded velocities."""
