# SPDX-License-Identifier: Apache-2.0
"""The cloud's policies: what to verify next, what to send as hints, what to abort; and their estimates."""
