# SPDX-License-Identifier: Apache-2.0
"""Judges an installation and a running graph."""
