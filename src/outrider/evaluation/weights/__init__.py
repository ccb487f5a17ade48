# SPDX-License-Identifier: Apache-2.0
"""Published language models as draft and target. They are optional: `make weights` downloads them."""
