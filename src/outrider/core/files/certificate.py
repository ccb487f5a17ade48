# SPDX-License-Identifier: Apache-2.0
"""How long browsers will accept a server's certificate."""

from __future__ import annotations

import re
import ssl
from datetime import datetime, timezone
from pathlib import Path

from outrider.core.files.given_file import read_file

SOON_DAYS = 30
"""A warning is given for a certificate that is valid for fewer days."""
_VALIDITY = re.compile(2 * rb"(?:\x17\x0d|\x18\x0f)(\d{12}|\d{14})Z")
"""The start and end of a certificate's validity, in DER."""
_SHOWN = "%Y-%m-%d %H:%M UTC"


def certificate_hint(file: str) -> str:
    """Return a warning about a certificate that is not valid, or soon will not be; else an empty text."""
    if not file:
        return ""
    try:
        since, until = _validity(Path(file))
    except (OSError, ValueError):
        return ""
    now = datetime.now(timezone.utc)
    if now < since:
        return f"; browsers refuse its certificate, which holds from {since:{_SHOWN}} on: is the clock right?"
    if until <= now:
        return f"; browsers refuse its certificate, which expired on {until:{_SHOWN}}: renew it"
    days = (until - now).days
    return (
        f"; its certificate expires on {until:{_SHOWN}}, in {days} days: renew it" if days < SOON_DAYS else ""
    )


def _validity(file: Path) -> list[datetime]:
    """Return start and end of the validity of a file's first certificate; empty if it names none.

    Raises OSError and ValueError.
    """
    text = read_file(file).decode("latin-1")
    first = text[text.index(ssl.PEM_HEADER) : text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)]
    found = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(first))
    times = [stamp.decode() for stamp in found.groups()] if found is not None else []
    # X.509 writes years until 2049 with two digits.
    whole = [stamp if len(stamp) == 14 else ("19" if stamp >= "50" else "20") + stamp for stamp in times]
    return [datetime.strptime(f"{stamp}+0000", "%Y%m%d%H%M%S%z") for stamp in whole]
