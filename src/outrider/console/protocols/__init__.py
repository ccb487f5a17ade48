# SPDX-License-Identifier: Apache-2.0
"""The server's side of a connection: no client orders more work of the loop than a stop can wait for."""
