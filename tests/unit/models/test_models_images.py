"""Camera frames become the same patches as with transformers' processor."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from support.tiny_models import random_jpeg
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from outrider.core.errors import FrameError
from outrider.models.inputs.images import Preprocessing, decode_jpeg, fit_to_model, model_size, patchify

SHIPPED = Preprocessing()


@pytest.mark.parametrize(("height", "width"), [(140, 252), (56, 84), (224, 168)])
def test_patches_equal_those_of_transformers(height: int, width: int) -> None:
    rgb = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = Qwen2VLImageProcessorPil()(images=[rgb], return_tensors="np")
    patches = patchify(fit_to_model(rgb, SHIPPED), SHIPPED)
    assert expected["image_grid_thw"].tolist() == [[1, height // 14, width // 14]]
    np.testing.assert_allclose(patches, expected["pixel_values"], atol=1e-5)


def test_sizes_follow_the_rule_of_qwen2_vl() -> None:
    rng = np.random.default_rng(0)
    for height, width in [(720, 1280), (10, 20), (3000, 4000), *rng.integers(30, 1500, (50, 2)).tolist()]:
        assert model_size(height, width, SHIPPED) == smart_resize(height, width, max_pixels=28 * 28 * 1280)


def test_a_frame_off_the_grid_is_resized() -> None:
    rgb = np.full((150, 250, 3), 90, np.uint8)
    resized = fit_to_model(rgb, SHIPPED)
    assert resized.shape == (140, 252, 3) and (resized == 90).all()


def test_too_narrow_a_frame_is_refused() -> None:
    with pytest.raises(FrameError, match="at most 200 times"):
        model_size(2, 900, SHIPPED)


def test_decoding_gives_rgb() -> None:
    red = np.zeros((28, 28, 3), np.uint8)
    red[:, :, 2] = 255
    jpeg = cv2.imencode(".jpg", red)[1].tobytes()
    assert decode_jpeg(jpeg)[5, 5].tolist() == pytest.approx([255, 0, 0], abs=3)


def test_a_frame_that_only_claims_to_be_a_jpeg_is_refused() -> None:
    whole = random_jpeg(0)
    with pytest.raises(FrameError, match="cannot be decoded"):
        decode_jpeg(whole[: whole.index(b"\xff\xda")] + b"\xff\xd9")
