# SPDX-License-Identifier: Apache-2.0
"""What speech recognition is worth, with synthetic speech."""
