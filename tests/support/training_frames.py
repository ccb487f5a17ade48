"""Training data of a few random frames, and the backbone of a random target."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from outrider.core.language.prompt import PromptContext, render_user_text
from outrider.core.training_data import Example, Query
from outrider.training.frozen.backbone import PackedBackbone

ANSWERS = (
    "move forward large\napproach: the red cup is ahead.",
    "turn left small\nsearch: no red cup here.",
    "stop\narrived: here.",
)


def example(seed: int) -> Example:
    jpeg = cv2.imencode(".jpg", np.random.default_rng(seed).integers(0, 255, (140, 252, 3), np.uint8))[1]
    queries = [Query(render_user_text(PromptContext("find the red cup", turned_deg=15)), a) for a in ANSWERS]
    return Example(jpeg.tobytes(), bytes(5 * 9 * 3 * 2), queries)


def backbone_of(target: Path) -> PackedBackbone:
    return PackedBackbone(target, target.parent / "tokenizer")
