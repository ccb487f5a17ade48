# SPDX-License-Identifier: Apache-2.0
"""Small networks that are fitted to a frozen target: early exits and a draft head."""
