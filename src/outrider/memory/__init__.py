# SPDX-License-Identifier: Apache-2.0
"""The robot's memory: an embedded store with hybrid search, and sentences about its records."""
