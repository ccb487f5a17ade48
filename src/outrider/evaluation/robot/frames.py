# SPDX-License-Identifier: Apache-2.0
"""`outrider eval frames`: compares the models' answers for single pictures with the expert's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.language.prompt import PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.language.words.things import Thing
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.decoders import decoder_of
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, optional, print_results, results_table
from outrider.evaluation.robot.frame_tasks import FrameTask, chosen_tasks, read_tasks
from outrider.memory.language.scene import DOOR
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.simulation.homes.vocabulary import COLOURS, KINDS

MODELS = ("target", "draft")
POSES = 200
_QUOTED = re.compile(r"\nrecall: (.+? was .+? \d+\.\d m)")


@dataclass(frozen=True)
class Answer:
    """A model's answer to one task; the first line of `text` is the action."""

    task: FrameTask
    text: str

    @property
    def agrees(self) -> bool:
        """Whether the action is the expert's."""
        return self.text.split("\n", 1)[0].strip() == self.task.action


def objects_named(text: str) -> frozenset[str]:
    """Returns the objects that a text reports as seen, with a direction as in `red chair left 10`."""
    words = text.replace(",", " ,").replace(";", " ;").replace("\n", " ").split()
    triples = zip(["", *words], words, words[1:], strict=False)
    return frozenset(
        Thing(kind, colour if colour in COLOURS else "").phrase
        for colour, kind, side in triples
        if kind in KINDS and kind != DOOR and side in ("left", "right", "ahead")
    )


def _coloured(text: str) -> frozenset[str]:
    """The objects named with a colour. Others do not count: a folder's index may omit plain furniture."""
    return frozenset(name for name in objects_named(text) if Thing.of(name).colour)


def quotes_right(text: str, user_text: str) -> bool | None:
    """Whether the place that a text recalls is in its prompt; None where it recalls none."""
    quoted = _QUOTED.search(text)
    if quoted is None:
        return None
    return f"saw {quoted[1].replace(' was ', ' ', 1)}" in user_text


def summarise(answers: Sequence[Answer]) -> dict[str, Any]:
    """Returns the figures of one set. Shares come with their 95 % interval; they are None without cases."""
    named = [(_coloured(answer.text), answer.task) for answer in answers]
    num_named = sum(len(names) for names, _ in named)
    quoted = [quotes_right(answer.text, answer.task.user_text) for answer in answers]
    expected_pairs = [(names, _coloured(task.expected)) for names, task in named]
    return {
        "answers": len(answers),
        "action_agreement": _share([answer.agrees for answer in answers]),
        "agreement_target_in_view": _share(
            [answer.agrees for answer in answers if answer.task.target_in_view]
        ),
        "object_precision": _ratio(sum(len(names & task.in_view) for names, task in named), num_named),
        "object_recall": _ratio(
            sum(len(names & expected) for names, expected in expected_pairs),
            sum(len(e) for _, e in expected_pairs),
        ),
        "quoted_right": _share([right for right in quoted if right is not None]),
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
    folder: Path | None = None,
    model: str = "target",
    models: Path | None = None,
    json_file: Path | None = None,
    poses: int | None = None,
    looks: Sequence[str] = ("plain",),
    seed: int = 0,
) -> dict[str, Any]:
    """Answer every task of a folder, or of homes in some looks; print a table, write JSON.

    Raises ConfigError or ModelError.
    """
    require_choice("model", model, MODELS)
    tasks = (
        _simulated_tasks(looks, poses or POSES, seed)
        if folder is None
        else chosen_tasks(read_tasks(folder), poses)
    )
    decoder = decoder_of(model, models_folder(models))
    answers = [Answer(task, decoder.decode(_request(task)).text) for task in tracked(tasks, "answers")]
    sets = dict.fromkeys(task.picture_set for task in tasks)
    figures: dict[str, Any] = {
        "model": model,
        "sets": {
            name: summarise([answer for answer in answers if answer.task.picture_set == name])
            for name in sets
        },
    }
    title = f"answers of the {model} beside the expert's"
    rows = (_cells(name, set_figures) for name, set_figures in figures["sets"].items())
    print_results(results_table(title, *LEGENDS["eval frames"], rows=rows))
    write_figures(json_file, figures)
    return figures


def _simulated_tasks(looks: Sequence[str], poses: int, seed: int) -> list[FrameTask]:
    from outrider.evaluation.robot.simulated_tasks import simulated_tasks  # needs a renderer

    return list(simulated_tasks(looks, poses, seed))


def _request(task: FrameTask) -> DecodeRequest:
    return DecodeRequest(Prompt(PROMPT_PREFIX + task.user_text + PROMPT_SUFFIX, task.jpeg()))


def _cells(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    shares = [_share_text(figures[key]) for key in ("action_agreement", "agreement_target_in_view")]
    ratios = [optional(figures[key], ".2f") for key in ("object_precision", "object_recall")]
    return name, str(figures["answers"]), *shares, *ratios, _share_text(figures["quoted_right"])


def _share_text(share: dict[str, Any] | None) -> str:
    if share is None:
        return "-"
    return f"{share['share']:.2f} ({interval_text(share['interval'])}) of {share['n']}"
