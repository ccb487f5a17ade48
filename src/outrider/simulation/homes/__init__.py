# SPDX-License-Identifier: Apache-2.0
"""Generated homes: their floor plans, their things, and what an instruction means in them."""
