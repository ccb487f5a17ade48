# SPDX-License-Identifier: Apache-2.0
"""Training data, and training runs from data to model folder."""
