# SPDX-License-Identifier: Apache-2.0
"""Commands a base: the action node and the interfaces of bases."""
