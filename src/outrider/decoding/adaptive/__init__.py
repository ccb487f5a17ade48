# SPDX-License-Identifier: Apache-2.0
"""What the adaptive policy decides, and the estimates it decides by."""
