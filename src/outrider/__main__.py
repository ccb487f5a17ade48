# SPDX-License-Identifier: Apache-2.0
"""`python -m outrider`."""

from outrider.cli import main

main()
