# SPDX-License-Identifier: Apache-2.0
"""Strategies compared under the papers' conditions, and what each mechanism is worth."""
