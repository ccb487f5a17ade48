# SPDX-License-Identifier: Apache-2.0
"""The web console: shows what the robot sees and says in a browser, and lets a person control it."""
