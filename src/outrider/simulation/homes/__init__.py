# SPDX-License-Identifier: Apache-2.0
"""Generated homes: their floor plans, what stands in them, and what an instruction means among it."""
