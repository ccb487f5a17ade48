# SPDX-License-Identifier: Apache-2.0
"""Outrider against the best alternatives: the papers' methods, tuned, and drafting in the cloud."""
