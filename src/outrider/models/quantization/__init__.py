# SPDX-License-Identifier: Apache-2.0
"""Weights of fewer bits, and the products that use them."""
