# SPDX-License-Identifier: Apache-2.0
"""How much memory models take, and whether there is enough."""
