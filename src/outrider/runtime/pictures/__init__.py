# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run: its map, its video, its animation."""
