# SPDX-License-Identifier: Apache-2.0
"""The conventions that both sides share: digests, encoded branches, refusals, limits and retries."""
