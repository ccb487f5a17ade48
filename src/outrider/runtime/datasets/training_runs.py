# SPDX-License-Identifier: Apache-2.0
"""Implements `outrider train …`: from a data set to a model folder.

Folders are created first, so that hours of work are not lost to a folder that cannot be written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import open_private
from outrider.core.files.terminal import tracked
from outrider.core.files.writing import make_folder, replace_file, try_lock
from outrider.core.language.grammar import COMMANDS, FIND_PHRASINGS
from outrider.core.language.prompt import PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.language.words.phrasebook import phrasebook
from outrider.core.model_options import Precision
from outrider.core.training_data import shard_paths
from outrider.models.backbone.draft_head import HeadWeights
from outrider.models.backbone.early_exits import ExitAdapters
from outrider.models.backbone.text_stack import TextStack
from outrider.models.checkpoint.card import read_card
from outrider.models.checkpoint.configuration import check_checkpoint, reads_pictures
from outrider.models.loading import install_exits, install_head, load_model, remove_outdated
from outrider.models.running_backbone import RunningBackbone
from outrider.runtime.common.paths import check_tokenizer
from outrider.runtime.datasets.own_answers import TOGETHER, write_answers
from outrider.runtime.datasets.real_prompts import training_questions
from outrider.runtime.datasets.stop_sounds import (
    CHOOSING_SPEAKERS,
    SPEAKERS,
    read_stop_shards,
    stop_shards,
    write_stop_shards,
)
from outrider.simulation.homes.vocabulary import COLOURS, KINDS, vocabulary
from outrider.training.batches import read_shard
from outrider.training.export import export
from outrider.training.frozen.backbone import Backbone, PackedBackbone
from outrider.training.frozen.draft_head import HeadConfig, train_head
from outrider.training.frozen.exits import ExitsConfig, train_exits
from outrider.training.imitation import TrainingConfig
from outrider.training.parallel import train
from outrider.training.readers import train_reader
from outrider.training.stops import set_threshold, train_stops
from outrider.training.tokenizer import train_tokenizer
from outrider.voice.stop_spotter import StopNetwork

TOKENIZER_SHARDS = 6
STOP_SHARDS_A_CHOOSING_ONE = 4
EXIT_MAX_LENGTH = 2048
LOCK = "in-use"


@contextlib.contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Create the folder of a run, and hold it: two trainings would overwrite each other's checkpoints.

    Raises ConfigError if another command holds it, or nothing can be written there.
    """
    make_folder(folder)
    with open_private(folder / LOCK, "ab") as file:
        if not try_lock(file.fileno()):
            raise ConfigError(
                f"another command trains in {folder}: wait until it has ended, or choose another folder"
            )
        yield


def make_tokenizer(data: Path, folder: Path) -> int:
    """Learn the shared tokenizer from a data set's texts and all phrasings. Returns its vocabulary size."""
    paths = shard_paths(data)[:TOKENIZER_SHARDS]
    make_folder(folder)
    texts = [f.format(f"{c} {k}") for f in FIND_PHRASINGS for c in COLOURS for k in KINDS]
    texts += list(COMMANDS) * 20
    for path in paths:
        for example in read_shard(path):
            texts += [PROMPT_PREFIX + q.user_text + PROMPT_SUFFIX + q.answer for q in example.queries]
    return len(train_tokenizer(texts, folder))


def make_model(
    config: TrainingConfig, data: Path, run: Path, models: Path, processes: int, start: Path | None = None
) -> dict[str, object]:
    """Train a role, or resume its checkpoint in `run`, and export it to `models/<role>`. Returns its card.

    A new run starts from the weights of the checkpoint `start`, if given. Early exits and a draft head in
    the model's folder that belong to other weights are removed.
    """
    tokenizer = models / "tokenizer"
    check_tokenizer(models, data)
    shard_paths(data)
    make_folder(models / config.role)
    with run_folder(run):
        checkpoint = train(config, tokenizer, data, run, processes, start)
    card = export(config.role, checkpoint, tokenizer, models / config.role, vocabulary())
    remove_outdated(models / config.role)
    return card


def make_reader(run: Path, models: Path, steps: int, seed: int) -> dict[str, object]:
    """Train a reader, or resume its checkpoint in `run`, and write it to `models/reader`.

    Returns its figures.
    """
    folder = models / "reader"
    with run_folder(run):
        make_folder(folder)
        for _ in tracked(train_reader(folder, run, steps, seed), "reader", total=steps):
            pass
    return read_card(folder).figures


def make_stops(
    sounds: Path,
    weights: Path,
    recorded: Path | None,
    recorded_choosing: Path | None,
    num_shards: int,
    steps: int,
    seed: int,
    processes: int,
) -> dict[str, float]:
    """Train the spotter of stop words on shards in `sounds` and write its weights. Creates missing shards.

    `recorded` and `recorded_choosing` are folders of recordings to train on, and to choose the threshold
    on. Returns the threshold, and the shares of examples with which it was chosen.
    """
    trained = stop_shards(sounds, "training", num_shards, seed, SPEAKERS, recorded)
    num_choosing = -(-num_shards // STOP_SHARDS_A_CHOOSING_ONE)
    chosen = stop_shards(sounds, "choosing", num_choosing, seed, CHOOSING_SPEAKERS, recorded_choosing)
    shards = [*trained, *chosen]
    for _ in tracked(write_stop_shards(shards, processes), "shards of speech", total=len(shards)):
        pass
    words = phrasebook("en").spoken("spotted_stops")
    modules = train_stops(read_stop_shards(trained), len(words), steps, seed)
    *_, module = tracked(modules, "steps", total=steps)
    shares = set_threshold(module, read_stop_shards(chosen))
    replace_file(weights, StopNetwork(**module.arrays()).to_bytes())
    return shares


def make_answers(folder: Path, target: Path, tokens: int, precision: Precision, device: str) -> None:
    """Let a language model answer all training questions, as data for `make_exits`. Existing answers stay."""
    check_checkpoint(target)
    with run_folder(folder):
        questions = training_questions()
        model = load_model(
            target, precision=precision, max_length=EXIT_MAX_LENGTH, sessions=TOGETHER, device=device
        )
        written = write_answers(folder, model, questions, tokens)
        for _ in tracked(written, "answers", total=-(-len(questions) // TOGETHER)):
            pass


def make_exits(
    config: ExitsConfig, data: Path, target: Path, precision: Precision = "fp32", device: str = "cpu"
) -> dict[str, object]:
    """Train early exits for the model in `target` and write them to its folder. Returns their figures.

    A general checkpoint, whose card has no vocabulary, runs in `precision` on `device`: give those that it
    will run with later. The small pair is trained on the CPU; another device raises ConfigError.
    """
    backbone, text = _frozen(target, data, precision, device)
    trained = train_exits(backbone, data, config)
    adapters = ExitAdapters(trained.layers, trained.token_ids, trained.down, trained.up)
    install_exits(target, adapters, trained.figures, text)
    return trained.figures


def make_head(
    config: HeadConfig, data: Path, target: Path, precision: Precision = "fp32", device: str = "cpu"
) -> dict[str, object]:
    """Train a draft head for the model in `target` and write it there, as `make_exits`.

    Returns its figures.
    """
    backbone, text = _frozen(target, data, precision, device)
    trained = train_head(backbone, data, config)
    weights = HeadWeights(trained.token_ids, trained.keep, trained.mix, trained.out)
    install_head(target, weights, trained.figures, text)
    return trained.figures


def _frozen(target: Path, data: Path, precision: Precision, device: str) -> tuple[Backbone, TextStack | None]:
    """Returns the frozen model in `target`, and its text stack, which is None for the small pair.

    Raises ConfigError for a file, a folder that cannot be written to, and data for another kind of model.
    """
    if target.is_file():
        raise ConfigError(f"{target} is a file: give its folder, for what is trained is put beside it")
    check_checkpoint(target)
    make_folder(target)
    _check_data(data, target)
    if read_card(target).vocabulary is None:
        model = load_model(target, precision=precision, max_length=EXIT_MAX_LENGTH, device=device)
        return RunningBackbone(model), model.text
    if device != "cpu":
        raise ConfigError(f"device={device}: {target} is a small model, trained on the cpu: leave it out")
    beside = target.parent / "tokenizer"
    return PackedBackbone(target, beside if beside.is_dir() else target), None


def _check_data(data: Path, target: Path) -> None:
    examples = (one for path in shard_paths(data) for one in read_shard(path))
    example = next((one for one in examples if one.queries), None)
    if example is None:
        raise ConfigError(f"{data} holds no questions: delete its shards and make them again")
    if reads_pictures(target) and not example.jpeg:
        raise ConfigError(
            f"{data} has no pictures, which {target} reads: give data of `outrider train data`, or as the "
            "target the text model whose answers these are"
        )
    if example.jpeg and not reads_pictures(target):
        raise ConfigError(
            f"{data} has pictures, and {target} is a text model: let it answer by `outrider train answers`"
        )
