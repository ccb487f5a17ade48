# SPDX-License-Identifier: Apache-2.0
"""`python -m outrider.cli`."""

from outrider.cli import main

main()
