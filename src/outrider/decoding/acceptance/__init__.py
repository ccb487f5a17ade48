# SPDX-License-Identifier: Apache-2.0
"""The mathematics of acceptance: pure functions, proved by enumeration and by statistics."""
