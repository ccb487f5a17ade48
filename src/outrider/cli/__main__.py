"""`python -m outrider.cli`."""

from outrider.cli import main

main()
