# SPDX-License-Identifier: Apache-2.0
"""The navigator, the memory, and the clients that send goals."""
