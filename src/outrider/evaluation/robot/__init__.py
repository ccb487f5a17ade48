# SPDX-License-Identifier: Apache-2.0
"""Navigation, frames, memory, console and idle load, evaluated with the real parts."""
