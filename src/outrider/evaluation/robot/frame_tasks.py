# SPDX-License-Identifier: Apache-2.0
"""Questions about single pictures, with the expert's answers.

A folder of frames holds `index.jsonl`, with one line per pose: `objects_in_view` (each with `what`), `tasks`
(each with `instruction`, the prompt's `user_text`, and the expert's `answer` and `action`), and `pictures`,
which names a file for each set, such as `gazebo` and `mujoco`. All sets have the same poses and prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of, read_text
from outrider.core.language.words.things import may_be
from outrider.simulation.homes.vocabulary import wanted

INDEX_FILE = "index.jsonl"


@dataclass(frozen=True)
class FrameTask:
    """One question about one picture: a file, or a JPEG at the models' resolution.

    `in_view`: the objects in the picture. `expected`: the expert's answer. `target`: the object asked for.
    """

    picture_set: str
    user_text: str
    expected: str
    in_view: frozenset[str]
    target: str
    file: Path | None = None
    stored: bytes = b""

    @property
    def action(self) -> str:
        """The expert's action."""
        return self.expected.partition("\n")[0]

    @property
    def target_in_view(self) -> bool:
        """Whether the target may be among the objects in view."""
        return bool(self.target) and any(may_be(what, self.target) for what in self.in_view)

    def jpeg(self) -> bytes:
        """Returns the picture as the models take it. Raises ConfigError for a file that is not a picture."""
        if self.file is None:
            return self.stored
        import cv2

        from outrider.navigation.sensing.camera_jpeg import model_jpeg

        picture = cv2.imread(str(self.file))
        if picture is None:
            raise ConfigError(f"{self.file}: not a picture that OpenCV reads")
        return model_jpeg(picture[:, :, ::-1])


def read_tasks(folder: Path) -> list[FrameTask]:
    """Returns a folder's tasks, set by set. Raises ConfigError with the file and line that are wrong."""
    index = folder / INDEX_FILE
    try:
        lines = read_text(index).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{index}: cannot be read ({cause_of(error)}); give a folder with {INDEX_FILE}"
        ) from error
    tasks: list[FrameTask] = []
    for number, line in enumerate(lines, 1):
        try:
            tasks += _tasks_of(json.loads(line), folder)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(f"{index}, line {number}: not a pose with its tasks ({error!r})") from error
    missing = next((task.file for task in tasks if task.file is None or not task.file.is_file()), None)
    if missing is not None or not tasks:
        raise ConfigError(f"{missing or index}: {'no such picture' if missing else 'holds no task'}")
    return sorted(tasks, key=lambda task: task.picture_set)


def _tasks_of(row: dict[str, Any], folder: Path) -> Iterable[FrameTask]:
    in_view = frozenset(str(thing["what"]) for thing in row["objects_in_view"])
    for name, file in row["pictures"].items():
        for task in row["tasks"]:
            yield FrameTask(
                str(name),
                task["user_text"],
                task["answer"],
                in_view,
                target_words(task["instruction"]),
                folder / file,
            )


def target_words(instruction: str) -> str:
    """Returns the object that an instruction asks for, in words; empty where it names none."""
    wanted_object = wanted(instruction)
    return wanted_object.phrase if wanted_object else ""


def chosen_tasks(tasks: Sequence[FrameTask], poses: int | None) -> list[FrameTask]:
    """Returns the tasks of `poses` poses, evenly spread over the folder; all tasks for None."""
    names = sorted({task.file.name for task in tasks if task.file is not None})
    if poses is None or poses >= len(names):
        return list(tasks)
    chosen = {names[index * len(names) // poses] for index in range(poses)}
    return [task for task in tasks if task.file is not None and task.file.name in chosen]
