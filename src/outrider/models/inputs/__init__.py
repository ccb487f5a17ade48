# SPDX-License-Identifier: Apache-2.0
"""From pictures to what the backbone reads."""
