# SPDX-License-Identifier: Apache-2.0
"""Published language models as draft and target, by choice: `make weights` brings them."""
