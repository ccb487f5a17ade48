# SPDX-License-Identifier: Apache-2.0
"""Outrider against the best alternative: what the papers do, tuned, and drafts beside the target."""
