"""A checkpoint's own files decide how its pictures are preprocessed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.tiny_models import TinySize, build_tiny_model, random_prompt
from transformers import ProcessorMixin, Qwen2VLConfig
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from outrider.core.errors import ConfigError, ModelError
from outrider.models import ReferenceGenerator, load_graph_model, load_model
from outrider.models.checkpoint.preprocessor_config import (
    PREPROCESSOR_FILE,
    PROCESSOR_FILE,
    read_preprocessing,
)
from outrider.models.inputs.images import Preprocessing, fit_to_model, model_size, patchify, smart_resize

PUBLISHED = {
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2VLProcessor",
}


def written(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / PREPROCESSOR_FILE).write_text(json.dumps(PUBLISHED | changes))
    return folder


def read(folder: Path, max_length: int = 100_000) -> Preprocessing:
    return read_preprocessing(folder, Qwen2VLConfig(), max_length)


def test_a_folder_without_the_file_keeps_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, 512) == Preprocessing()
    assert (Preprocessing().min_pixels, Preprocessing().max_pixels) == (3136, 1_003_520)


def test_a_published_file_is_what_decides(tmp_path: Path) -> None:
    how = read(written(tmp_path))
    assert (how.min_pixels, how.max_pixels) == (3136, 12_845_056)
    assert model_size(1080, 1920, how) == (1092, 1932)
    assert model_size(1080, 1920, Preprocessing()) == (728, 1316)


@pytest.mark.parametrize(
    "changes",
    [
        {"min_pixels": 200 * 784, "max_pixels": 300 * 784},
        {"max_pixels": 40 * 784, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.25, 1]},
    ],
)
def test_patches_are_those_of_transformers_with_the_same_file(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """The picture already has the model's size, because the two sides resize with different filters."""
    how, theirs = read(written(tmp_path, **changes)), Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
    height, width = model_size(280, 504, how)
    assert (height, width) != (280, 504)
    rgb = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected = theirs(images=[rgb], return_tensors="np")
    assert expected["image_grid_thw"].tolist() == [[1, height // 14, width // 14]]
    np.testing.assert_allclose(patchify(fit_to_model(rgb, how), how), expected["pixel_values"], atol=1e-5)


class PicturesOnly(ProcessorMixin):
    """The published processor without its tokenizer, and without videos, which need torchvision."""

    def __init__(self, image_processor: Any) -> None:
        super().__init__(image_processor)


def test_a_processor_that_transformers_saved_as_a_whole_is_read(tmp_path: Path) -> None:
    settings = {"min_pixels": 200 * 784, "max_pixels": 300 * 784, "image_mean": [0.2, 0.4, 0.6]}
    PicturesOnly(Qwen2VLImageProcessorPil(**settings)).save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [PROCESSOR_FILE]
    how = read(tmp_path)
    assert (how.min_pixels, how.max_pixels, how.mean) == (200 * 784, 300 * 784, (0.2, 0.4, 0.6))


def test_of_two_files_the_one_that_transformers_reads_decides(tmp_path: Path) -> None:
    """That of the whole processor, unless it says nothing about pictures, as in older checkpoints."""
    written(tmp_path, max_pixels=40 * 784)
    whole = tmp_path / PROCESSOR_FILE
    for content in ({"processor_class": "Qwen2VLProcessor"}, {"image_processor": PUBLISHED}):
        whole.write_text(json.dumps(content))
        theirs = Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
        assert read(tmp_path).max_pixels == theirs.size["longest_edge"]
    assert read(tmp_path).max_pixels == PUBLISHED["max_pixels"]


def test_nonsense_in_a_whole_processor_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / PROCESSOR_FILE
    whole.write_text(json.dumps({"image_processor": PUBLISHED | {"patch_size": 16}}))
    with pytest.raises(ModelError, match=r"processor_config\.json: image_processor: patch_size is 16"):
        read(tmp_path)
    whole.write_text(json.dumps({"image_processor": "Qwen2VLImageProcessor"}))
    with pytest.raises(ModelError, match="image_processor is 'Qwen2VLImageProcessor', no JSON object"):
        read(tmp_path)


def test_the_newer_names_of_the_bounds_are_read(tmp_path: Path) -> None:
    bounds = {"shortest_edge": 6272, "longest_edge": 78_400}
    how = read(written(tmp_path, size=bounds, min_pixels=None, max_pixels=None))
    assert (how.min_pixels, how.max_pixels) == (6272, 78_400)
    both = read(written(tmp_path, size=bounds, max_pixels=100_000))
    assert (both.min_pixels, both.max_pixels) == (3136, 100_000)


def test_a_picture_leaves_room_for_the_text(tmp_path: Path) -> None:
    folder = written(tmp_path)
    for max_length, tokens in ((512, 256), (2048, 1536)):
        height, width = model_size(3000, 4000, read(folder, max_length))
        assert 0.9 * tokens < height * width / 784 <= tokens
    with pytest.raises(ConfigError, match="max_length=6 leaves 2352 pixels for a picture"):
        read(folder, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_pixels": -1}, "min_pixels is -1, no whole number"),
        ({"max_pixels": "many"}, "max_pixels is 'many', no whole number"),
        ({"max_pixels": True}, "max_pixels is True, no whole number"),
        ({"max_pixels": 3000}, "a picture of 3136 to 3000 pixels cannot be"),
        ({"min_pixels": 1, "max_pixels": 500}, "merged patches of 784"),
        ({"size": 448}, "size is 448, no JSON object"),
        ({"patch_size": 16}, "patch_size is 16; only 14 fits the model"),
        ({"merge_size": 1}, "merge_size is 1; only 2 fits"),
        ({"temporal_patch_size": 1}, "temporal_patch_size is 1; only 2 fits"),
        ({"do_resize": False}, "do_resize is False; only True fits"),
        ({"image_mean": [0.5, 0.5]}, r"image_mean is \[0.5, 0.5\], not three numbers"),
        ({"image_mean": [0.5, float("nan"), 0.5]}, "image_mean is .*nan.*, not three numbers"),
        ({"image_std": [0.5, 0, 0.5]}, "image_std is .*, not three numbers above 0"),
    ],
)
def test_nonsense_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(written(tmp_path, **changes))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / PREPROCESSOR_FILE).write_text("{")
    with pytest.raises(ModelError, match=r"preprocessor_config\.json cannot be read as JSON"):
        read(tmp_path)


def _forget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import a module anew in this test, and restore it afterwards."""
    monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))
    monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def stand_in_for_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for what qwen-vl-utils imports for videos only; its rule of sizes does not use it."""
    for name in ("qwen_vl_utils", "qwen_vl_utils.vision_process"):
        _forget(name, monkeypatch)
    package, transforms = ModuleType("torchvision"), ModuleType("torchvision.transforms")
    vars(package).update(io=None, transforms=transforms)
    vars(transforms).update(InterpolationMode=None)
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.transforms", transforms)


def test_sizes_are_those_of_qwen_vl_utils(stand_in_for_torchvision: None, tmp_path: Path) -> None:
    theirs = pytest.importorskip("qwen_vl_utils").smart_resize
    how = read(written(tmp_path))
    assert how.size_rule is theirs and read(tmp_path / "without").size_rule is smart_resize
    rng = np.random.default_rng(0)
    for height, width in rng.integers(15, 3000, (300, 2)).tolist():
        least = int(rng.integers(1, 400)) * 784
        for bounds in ((3136, 12_845_056), (least, least + int(rng.integers(16_384)) * 784)):
            assert smart_resize(height, width, 28, *bounds) == theirs(height, width, 28, *bounds)


@pytest.mark.parametrize("error", [ImportError, RuntimeError, OSError])
def test_ours_stand_in_where_qwen_vl_utils_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    package = tmp_path / "packages" / "qwen_vl_utils"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"raise {error.__name__}('operator torchvision::nms')")
    _forget("qwen_vl_utils", monkeypatch)
    monkeypatch.syspath_prepend(str(package.parent))
    assert read(written(tmp_path)).size_rule is smart_resize


def test_the_rule_of_qwen_vl_utils_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("qwen_vl_utils")
    vars(package).update(smart_resize=lambda height, width, factor, least, most: (factor, 3 * factor))
    monkeypatch.setitem(sys.modules, "qwen_vl_utils", package)
    assert model_size(480, 640, read(written(tmp_path))) == (28, 84)
    assert model_size(480, 640, read(tmp_path / "without")) == (476, 644)


@pytest.mark.lengthy
def test_models_read_pictures_as_their_folder_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same picture takes fewer tokens, and the text is still that of transformers."""
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    folder, prompt = build_tiny_model(tmp_path / "target", TinySize()), random_prompt(1)
    assert load_model(folder).vision.count_tokens(prompt.jpeg) == 45
    written(folder, max_pixels=20 * 784, image_mean=[0.2, 0.4, 0.6])
    model = load_model(folder)
    assert model.vision.count_tokens(prompt.jpeg) == 18
    assert load_graph_model(folder, precision="fp32").vision.count_tokens(prompt.jpeg) == 18
    session = model.open_session()
    token_ids = [int(session.prefill(prompt).argmax())]
    while len(token_ids) < 8:
        token_ids.append(int(session.forward(token_ids[-1:])[0].argmax()))
    assert ReferenceGenerator(folder).generate(prompt, 8) == token_ids


def test_bounds_that_transformers_4_45_wrote_into_size_count_and_whole_floats_are_numbers(tmp_path) -> None:
    bounds = {"min_pixels": 50_176, "max_pixels": 78_400.0}
    how = read(written(tmp_path, size=bounds, min_pixels=None, max_pixels=None))
    assert (how.min_pixels, how.max_pixels) == (50_176, 78_400)


def test_a_255th_that_was_saved_as_float32_is_one(tmp_path: Path) -> None:
    assert read(written(tmp_path, rescale_factor=0.003921568859368563)) == read(written(tmp_path))
    with pytest.raises(ModelError, match=r"rescale_factor is 0\.004"):
        read(written(tmp_path, rescale_factor=0.004))
