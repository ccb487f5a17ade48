# SPDX-License-Identifier: Apache-2.0
"""The server's side of a connection: bounds each client's work on the loop, so that stops are not delayed."""
