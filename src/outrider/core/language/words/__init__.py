# SPDX-License-Identifier: Apache-2.0
"""The words and phrases of the languages, and what they mean in orders: numbers, stops, limits."""
