# SPDX-License-Identifier: Apache-2.0
"""What models cost: steps, verifications, precisions, static graphs."""
