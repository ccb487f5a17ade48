# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds the parts from plain settings and connects them."""
