# SPDX-License-Identifier: Apache-2.0
"""`outrider eval frames`: how the models answer for pictures of another camera or simulator.

A folder of frames holds `index.jsonl`, one line a pose: `objects_in_view` (each with `what`), `tasks` (each
with `instruction`, the prompt's `user_text`, and the expert's `answer` and `action`), and `pictures`, which
names a file of each set, such as `gazebo` and `mujoco`. Sets are compared at the same poses and prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.language.prompt import PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.language.things import Thing, may_be
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.memory.language.scene import DOOR
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.simulation.vocabulary import COLOURS, KINDS, target_of

INDEX_FILE = "index.jsonl"
MODELS = ("target", "draft")


@dataclass(frozen=True)
class FrameTask:
    """One question about one picture. `in_view` are the objects there, `expected` the expert's own words."""

    picture_set: str
    picture: Path
    user_text: str
    expected: str
    action: str
    in_view: frozenset[str]
    target: str

    @property
    def target_in_view(self) -> bool:
        """Whether the target may be among the objects in view."""
        return bool(self.target) and any(may_be(what, self.target) for what in self.in_view)


@dataclass(frozen=True)
class Answer:
    """What a model said to one task; `text` has the action in its first line."""

    task: FrameTask
    text: str

    @property
    def agrees(self) -> bool:
        """Whether the action is the expert's."""
        return self.text.split("\n", 1)[0].strip() == self.task.action


def read_tasks(folder: Path) -> list[FrameTask]:
    """The tasks of a folder, set by set. Raises ConfigError naming the file and line that do not fit."""
    index = folder / INDEX_FILE
    try:
        lines = index.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{index}: cannot be read ({error}); give a folder with {INDEX_FILE}") from error
    tasks: list[FrameTask] = []
    for number, line in enumerate(lines, 1):
        try:
            tasks += _tasks_of(json.loads(line), folder)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{index}, line {number}: not a pose with its tasks ({error!r})") from error
    missing = next((task.picture for task in tasks if not task.picture.is_file()), None)
    if missing is not None or not tasks:
        raise ConfigError(f"{missing or index}: {'no such picture' if missing else 'holds no task'}")
    return sorted(tasks, key=lambda task: task.picture_set)


def _tasks_of(row: dict[str, Any], folder: Path) -> Iterable[FrameTask]:
    in_view = frozenset(str(thing["what"]) for thing in row["objects_in_view"])
    for name, file in row["pictures"].items():
        for task in row["tasks"]:
            meant = target_of(task["instruction"])
            yield FrameTask(
                picture_set=str(name),
                picture=folder / file,
                user_text=task["user_text"],
                expected=task["answer"],
                action=task["action"],
                in_view=in_view,
                target=meant.phrase if meant else "",
            )


def chosen_tasks(tasks: Sequence[FrameTask], poses: int | None) -> list[FrameTask]:
    """The tasks of so many poses, evenly spread over the folder; of all for None."""
    names = sorted({task.picture.name for task in tasks})
    if poses is None or poses >= len(names):
        return list(tasks)
    kept = {names[index * len(names) // poses] for index in range(poses)}
    return [task for task in tasks if task.picture.name in kept]


def objects_named(text: str) -> frozenset[str]:
    """The objects that a text says are seen: those whose direction follows, as in `red chair left 10`."""
    words = text.replace(",", " ,").replace(";", " ;").replace("\n", " ").split()
    triples = zip(["", *words], words, words[1:], strict=False)
    return frozenset(
        Thing(kind, colour if colour in COLOURS else "").phrase
        for colour, kind, side in triples
        if kind in KINDS and kind != DOOR and side in ("left", "right", "ahead")
    )


def summarise(answers: Sequence[Answer]) -> dict[str, Any]:
    """The figures of one set. Shares come with their 95 % interval; without a case they are None."""
    named = [(objects_named(answer.text), answer.task) for answer in answers]
    told = sum(len(names) for names, _ in named)
    asked = [(names, objects_named(task.expected)) for names, task in named]
    return {
        "answers": len(answers),
        "action_agreement": _share([answer.agrees for answer in answers]),
        "agreement_target_in_view": _share([one.agrees for one in answers if one.task.target_in_view]),
        "object_precision": _ratio(sum(len(names & task.in_view) for names, task in named), told),
        "object_recall": _ratio(
            sum(len(names & expected) for names, expected in asked), sum(len(e) for _, e in asked)
        ),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _share(flags: Sequence[bool]) -> dict[str, Any] | None:
    if not flags:
        return None
    return {
        "share": sum(flags) / len(flags),
        "n": len(flags),
        "interval": wilson_interval(sum(flags), len(flags)),
    }


def evaluate_frames(
    folder: Path,
    model: str = "target",
    models: Path | None = None,
    json_file: Path | None = None,
    poses: int | None = None,
) -> dict[str, Any]:
    """Answer every task, print a table, write JSON. Raises ConfigError or ModelError where that cannot be."""
    if model not in MODELS:
        raise ConfigError(f"model={model!r} is not one of {', '.join(MODELS)}")
    tasks = chosen_tasks(read_tasks(folder), poses)
    from outrider.models import load_model  # seconds to import
    from outrider.runtime.wiring.decoders import local_decoder

    loaded = load_model(models_folder(models) / model)
    decoder = local_decoder(loaded, None, DecodingConfig(strategy="ar"))
    answers = [Answer(task, decoder.decode(_request(task)).text) for task in tracked(tasks, "answers")]
    sets = sorted({task.picture_set for task in tasks})
    figures = {
        "model": model,
        "sets": {name: summarise([one for one in answers if one.task.picture_set == name]) for name in sets},
    }
    _print(figures)
    write_figures(json_file, figures)
    return figures


def _request(task: FrameTask) -> DecodeRequest:
    import cv2

    from outrider.navigation.sensing.camera_jpeg import model_jpeg

    picture = cv2.imread(str(task.picture))
    if picture is None:
        raise ConfigError(f"{task.picture}: not a picture that OpenCV reads")
    return DecodeRequest(
        Prompt(PROMPT_PREFIX + task.user_text + PROMPT_SUFFIX, model_jpeg(picture[:, :, ::-1]))
    )


def _print(figures: dict[str, Any]) -> None:
    title = f"answers of the {figures['model']} beside the expert's"
    table = results_table(title, *LEGENDS["eval frames"])
    for name, one in figures["sets"].items():
        shares = [_share_text(one[key]) for key in ("action_agreement", "agreement_target_in_view")]
        ratios = [
            "-" if one[key] is None else f"{one[key]:.2f}" for key in ("object_precision", "object_recall")
        ]
        table.add_row(name, str(one["answers"]), *shares, *ratios)
    print_results(table)


def _share_text(share: dict[str, Any] | None) -> str:
    if share is None:
        return "-"
    low, high = share["interval"]
    return f"{share['share']:.2f} ({low:.2f} to {high:.2f}) of {share['n']}"


def _ratio_text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"
