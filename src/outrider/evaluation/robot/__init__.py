# SPDX-License-Identifier: Apache-2.0
"""Navigation, safety, kills, memory, console and idle load, evaluated with the real parts."""
