# SPDX-License-Identifier: Apache-2.0
"""The web console: what the robot sees and says in a browser, and a person's hand on it."""
