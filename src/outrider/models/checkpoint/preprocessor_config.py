# SPDX-License-Identifier: Apache-2.0
"""Reads from a checkpoint's files how pictures must be prepared for the vision tower.

A processor saved as a whole has this in `processor_config.json`, under `image_processor`; otherwise it is
in `preprocessor_config.json`. If both have it, the first one counts, as in transformers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError, ModelError
from outrider.models.checkpoint.architectures import ARCHITECTURES
from outrider.models.checkpoint.card import read_card, read_json
from outrider.models.inputs.images import Preprocessing, SizeRule, smart_resize

PREPROCESSOR_FILE = "preprocessor_config.json"
PROCESSOR_FILE, NESTED = "processor_config.json", "image_processor"
TEXT_TOKENS = 512
"""Tokens of max_length that a picture leaves to the text, but at most half of max_length."""


def read_preprocessing(folder: Path, config: Any, max_length: int) -> Preprocessing | None:
    """Return how pictures are prepared, as `_asked_for`.

    A model whose card has a vocabulary cannot read, so printed sheets are removed from its pictures.
    """
    how = _asked_for(folder, config, max_length)
    return how and replace(how, takes_out_sheets=read_card(folder).vocabulary is not None)


def _asked_for(folder: Path, config: Any, max_length: int) -> Preprocessing | None:
    """Return what the folder's file asks for, its largest picture bounded by the room in `max_length`.

    None for a text model. A folder without either file, like the shipped ones, gets the settings of its
    architecture's published files; what a file leaves out gets the defaults of its processor, which are
    Qwen2-VL's. Raises ModelError for values that are impossible or do not match the weights, ConfigError
    for too little room.
    """
    pictures = ARCHITECTURES[config.model_type].pictures
    if pictures is None:
        return None
    vision = config.vision_config
    sizes = vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size
    how, found = Preprocessing(*sizes), _settings(folder)
    if found is None:
        return replace(pictures, patch_px=sizes[0], merge=sizes[1], temporal=sizes[2])
    where, content = found
    _check_fixed(where, content, how)
    least, most = _pixel_bounds(where, content, how)
    room = max(max_length - TEXT_TOKENS, max_length // 2) * how.factor_px**2
    if room < max(least, how.factor_px**2):
        raise ConfigError(
            f"max_length={max_length} leaves {room} pixels for a picture, and {where} asks for {least} at "
            "least: load the model with a larger max_length"
        )
    return replace(
        how,
        min_pixels=least,
        max_pixels=min(most, room),
        mean=_channels(where, content, "image_mean", how.mean),
        std=_channels(where, content, "image_std", how.std, positive=True),
        size_rule=published_size_rule(),
    )


def _settings(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Return the image processor's settings and their origin.

    Raises ModelError for anything but a JSON object.
    """
    whole = folder / PROCESSOR_FILE
    nested = read_json(whole).get(NESTED) if whole.exists() else None
    if nested is not None:
        if not isinstance(nested, dict):
            raise ModelError(f"{whole}: {NESTED} is {nested!r}, no JSON object: restore the file")
        return f"{whole}: {NESTED}", nested
    path = folder / PREPROCESSOR_FILE
    return (str(path), read_json(path)) if path.exists() else None


def published_size_rule() -> SizeRule:
    """Return `smart_resize` of qwen-vl-utils if it can be imported, else ours.

    They differ only for sides of half a merged patch or less. The package imports torchvision, which may be
    missing, or built for another torch and then raise a RuntimeError or an OSError.
    """
    try:
        from qwen_vl_utils import smart_resize as published
    except (ImportError, OSError, RuntimeError):
        return smart_resize
    rule: SizeRule = published
    return rule


def _check_fixed(where: str, content: dict[str, Any], how: Preprocessing) -> None:
    """Raise ModelError if the file contradicts what the weights or the runtime determine."""
    fixed = {
        "patch_size": how.patch_px,
        "merge_size": how.merge,
        "temporal_patch_size": how.temporal,
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "rescale_factor": 1 / 255,
    }
    for name, wanted in fixed.items():
        found = content.get(name, wanted)
        is_alike = isinstance(found, bool) == isinstance(wanted, bool) and isinstance(found, int | float)
        if not is_alike or not math.isclose(found, wanted, rel_tol=1e-6):  # 1 / 255 may be a float32
            raise ModelError(
                f"{where}: {name} is {found!r}; only {wanted!r} fits the model: restore the file"
            )


def _pixel_bounds(where: str, content: dict[str, Any], how: Preprocessing) -> tuple[int, int]:
    """Return the fewest and the most pixels. min_pixels and max_pixels take precedence over `size`.

    In `size`, transformers 4.45 wrote them with the same names, and later versions as edges.
    """
    size = content.get("size") or {}
    if not isinstance(size, dict):
        raise ModelError(f"{where}: size is {size!r}, no JSON object: restore the file")
    least = _count(
        where, content, "min_pixels", _sized(where, size, "shortest_edge", "min_pixels", how.min_pixels)
    )
    most = _count(
        where, content, "max_pixels", _sized(where, size, "longest_edge", "max_pixels", how.max_pixels)
    )
    if most < max(least, how.factor_px**2):
        raise ModelError(
            f"{where}: a picture of {least} to {most} pixels cannot be, with merged patches of "
            f"{how.factor_px**2}: restore the file"
        )
    return least, most


def _sized(where: str, size: dict[str, Any], edge: str, pixels: str, default: int) -> int:
    return _count(f"{where}: size", size, edge, _count(f"{where}: size", size, pixels, default))


def _count(where: str, content: dict[str, Any], name: str, default: int) -> int:
    found = content.get(name)
    if found is None:
        return default
    if type(found) not in (int, float) or found < 1 or not math.isfinite(found) or found != int(found):
        raise ModelError(f"{where}: {name} is {found!r}, no whole number from 1: restore the file")
    return int(found)


def _channels(
    where: str, content: dict[str, Any], name: str, default: tuple[float, ...], positive: bool = False
) -> tuple[float, ...]:
    values = content.get(name, default)
    if (
        not isinstance(values, list | tuple)
        or len(values) != 3
        or not all(type(one) in (int, float) and math.isfinite(one) for one in values)
        or (positive and min(values) <= 0)
    ):
        kind = "numbers above 0" if positive else "numbers"
        raise ModelError(f"{where}: {name} is {values!r}, not three {kind}: restore the file")
    return tuple(map(float, values))
