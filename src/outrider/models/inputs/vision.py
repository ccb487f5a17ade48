# SPDX-License-Identifier: Apache-2.0
"""Encodes a frame's bytes into the language half's tokens, once per frame."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Generator
from dataclasses import dataclass

import torch

from outrider.core.sensors.jpeg import jpeg_size
from outrider.models.backbone.vision_tower import Features, encode_patches
from outrider.models.inputs.images import Preprocessing, decode_jpeg, fit_to_model, model_size, patchify

CACHED_FRAMES = 8


@dataclass(frozen=True)
class ImageTokens:
    """Features of one frame's rows * columns tokens, row by row; `digest` is that of its JPEG bytes."""

    features: Features
    rows: int
    columns: int
    digest: bytes


class VisionEncoder:
    """The vision tower and its merger, with a cache of the newest frames. Thread-safe."""

    def __init__(self, tower: torch.nn.Module, how: Preprocessing) -> None:
        self._tower = tower
        self._how = how
        self._frames: OrderedDict[bytes, ImageTokens] = OrderedDict()
        self._lock = threading.Lock()

    def to(self, device: torch.device) -> None:
        """Move the tower to the device."""
        self._tower.to(device)

    def count_tokens(self, jpeg: bytes) -> int:
        """Return how many tokens `encode_parts` would give, from the header.

        Raises FrameError for a bad one.
        """
        width, height = jpeg_size(jpeg)
        new_height, new_width = model_size(height, width, self._how)
        return new_height * new_width // self._how.factor_px**2

    def encode_parts(self, jpeg: bytes) -> Generator[None, None, ImageTokens]:
        """Encode a frame; other work may run between its parts. Raises FrameError for a bad JPEG."""
        digest = hashlib.sha256(jpeg).digest()
        with self._lock:
            if digest in self._frames:
                self._frames.move_to_end(digest)
                return self._frames[digest]
        tokens = yield from self._run_tower(jpeg, digest)
        with self._lock:
            self._frames[digest] = tokens
            while len(self._frames) > CACHED_FRAMES:
                self._frames.popitem(last=False)
        return tokens

    @torch.inference_mode()
    def _run_tower(self, jpeg: bytes, digest: bytes) -> Generator[None, None, ImageTokens]:
        rgb = fit_to_model(decode_jpeg(jpeg), self._how)
        rows, columns = (side // self._how.patch_px for side in rgb.shape[:2])
        like = next(self._tower.parameters())
        patches = torch.from_numpy(patchify(rgb, self._how)).to(like.device, like.dtype)
        features = yield from encode_patches(self._tower, patches, rows, columns)
        merge = self._how.merge
        return ImageTokens(features.float(), rows // merge, columns // merge, digest)
