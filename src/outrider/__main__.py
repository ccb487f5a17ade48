# SPDX-License-Identifier: Apache-2.0
"""The command `outrider`, also as `python -m outrider`."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it without a trace, also while it is imported and while it exits."""
    try:
        from outrider import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        from outrider.runtime.common.ending_signals import exit_on_signals

        exit_on_signals()


if __name__ == "__main__":
    main()
