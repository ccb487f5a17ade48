# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind, and its replay."""
