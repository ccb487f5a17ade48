# SPDX-License-Identifier: Apache-2.0
"""Sentences that pages and agents say, read outside the event loop."""
