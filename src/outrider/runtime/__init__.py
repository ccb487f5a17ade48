# SPDX-License-Identifier: Apache-2.0
"""The composition root: puts the parts together from plain settings."""
