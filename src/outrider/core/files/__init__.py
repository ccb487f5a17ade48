# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, for their owner alone; and what a terminal shows."""
