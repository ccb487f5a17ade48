# SPDX-License-Identifier: Apache-2.0
"""Published language models as draft and target; optional, fetched by `make weights`."""
