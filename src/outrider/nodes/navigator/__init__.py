# SPDX-License-Identifier: Apache-2.0
"""The navigator, what it serves, and who asks it."""
