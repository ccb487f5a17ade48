"""Where the data that comes with the package lies: in a checkout, or installed under a prefix."""

from __future__ import annotations

import sys
from pathlib import Path

from outrider.core.errors import ModelError

_CHECKOUT = Path(__file__).resolve().parents[3]


def models_folder(given: Path | None = None) -> Path:
    """The folder with target/, draft/ and tokenizer/: the given, else the checkout's or the installed one.

    Raises ModelError naming where it was looked for.
    """
    candidates = [given] if given is not None else _default_folders()
    for folder in candidates:
        if (folder / "tokenizer").is_dir():
            return folder
    looked = ", ".join(str(folder) for folder in candidates)
    raise ModelError(
        f"no models found (looked in {looked}): give the folder that holds tokenizer/ and target/"
    )


def _default_folders() -> list[Path]:
    return [
        Path("models").resolve(),
        _CHECKOUT / "models",
        Path(sys.prefix) / "share" / "outrider" / "models",
    ]
