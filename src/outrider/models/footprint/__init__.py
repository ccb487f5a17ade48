# SPDX-License-Identifier: Apache-2.0
"""Computes how much memory models take, and checks whether there is enough."""
