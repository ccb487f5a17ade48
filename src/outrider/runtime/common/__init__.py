# SPDX-License-Identifier: Apache-2.0
"""Shared by all compositions: paths, links, ports, ends of processes, figures."""
