# SPDX-License-Identifier: Apache-2.0
"""The decoding engine: two state machines without I/O, their jobs, and the drivers that need no network."""
