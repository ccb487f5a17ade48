# SPDX-License-Identifier: Apache-2.0
"""The records of a run, and its replay."""
