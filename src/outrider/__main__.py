# SPDX-License-Identifier: Apache-2.0
"""The command `outrider`, also as `python -m outrider`."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it without a trace, also while it is imported."""
    try:
        from outrider import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
