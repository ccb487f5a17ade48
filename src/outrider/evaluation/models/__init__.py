# SPDX-License-Identifier: Apache-2.0
"""The cost of models: steps, verifications, precisions, static graphs."""
