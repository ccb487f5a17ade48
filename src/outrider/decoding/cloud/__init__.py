# SPDX-License-Identifier: Apache-2.0
"""The cloud's state machine: it verifies the drafts of many robots in batches."""
