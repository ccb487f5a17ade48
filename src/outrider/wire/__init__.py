# SPDX-License-Identifier: Apache-2.0
"""The wire: strict frames over ZeroMQ, with CURVE keys beyond the loopback."""
