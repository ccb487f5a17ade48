# SPDX-License-Identifier: Apache-2.0
"""Small networks beside a frozen target: early exits and a draft head."""
