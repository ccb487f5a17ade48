# SPDX-License-Identifier: Apache-2.0
"""What both sides must agree on: digests, encoded branches, refusals, limits and retries."""
