# SPDX-License-Identifier: Apache-2.0
"""What decides: what the cloud verifies next, what it tells and aborts, and the estimates behind it."""
