# SPDX-License-Identifier: Apache-2.0
"""Checks an installation and a running graph."""
