"""Answers about a folder of pictures: what is read and counted, and the shipped pair on real pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.robot.frame_tasks import FrameTask, chosen_tasks, read_tasks
from outrider.evaluation.robot.frames import (
    Answer,
    evaluate_frames,
    objects_named,
    quotes_right,
    summarise,
)
from outrider.evaluation.robot.simulated_tasks import simulated_tasks
from outrider.runtime.datasets.dataset import home_examples
from outrider.runtime.datasets.held_out import first_home_seed

SEEN = "turn left large\nsearch: no red cup; green vase right 5 at 5.6 m, not red; silver bin ahead at 2 m."


def pose(number: int, **changed: Any) -> dict[str, Any]:
    task = {
        "instruction": "find the red cup",
        "user_text": "task: find the red cup",
        "answer": SEEN,
        "action": "turn left large",
    }
    row = {
        "objects_in_view": [{"what": "green vase"}, {"what": "silver bin"}],
        "tasks": [task],
        "pictures": {"plain": f"plain/{number}.jpg", "dim": f"dim/{number}.jpg"},
    }
    return {**row, **changed}


def write_folder(folder: Path, rows: list[dict[str, Any]], jpeg: bytes = b"") -> Path:
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row in rows:
        for file in row.get("pictures", {}).values():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_bytes(jpeg)
    return folder


def test_tasks_are_read_set_by_set(tmp_path: Path) -> None:
    tasks = read_tasks(write_folder(tmp_path, [pose(0), pose(1)]))
    assert [task.picture_set for task in tasks] == ["dim", "dim", "plain", "plain"]
    assert tasks[0].in_view == {"green vase", "silver bin"} and tasks[0].target == "red cup"
    assert not tasks[0].target_in_view
    assert replace(tasks[0], target="vase").target_in_view and not replace(tasks[0], target="").target_in_view
    spread = chosen_tasks(read_tasks(write_folder(tmp_path, [pose(n) for n in range(9)])), 3)
    assert [task.file.name for task in spread] == ["0.jpg", "3.jpg", "6.jpg"] * 2


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([pose(0), {"tasks": []}], "line 2"),
        ([pose(0, pictures=["a.jpg"])], "line 1"),
        ([pose(0, tasks=[{"instruction": "find the red cup"}])], "line 1"),
        ([pose(0, tasks=[])], "holds no task"),
        ([], "holds no task"),
    ],
)
def test_a_folder_of_another_form_is_refused_with_the_place(
    rows: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=said):
        read_tasks(folder)


def test_a_line_that_is_too_deep_to_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="line 1: not a pose"):
        read_tasks(tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"index\.jsonl: cannot be read"):
        read_tasks(tmp_path)
    write_folder(tmp_path, [pose(0)])
    (tmp_path / "dim" / "0.jpg").unlink()
    with pytest.raises(ConfigError, match=r"dim/0\.jpg: no such picture"):
        read_tasks(tmp_path)
    with pytest.raises(ConfigError, match="model='expert' is not one of target, draft"):
        evaluate_frames(tmp_path, model="expert")


def test_objects_are_named_where_their_direction_follows() -> None:
    assert objects_named(SEEN) == {"green vase", "silver bin"}
    assert objects_named("red cup was far right 7 m; no red cup; door left 30 at 2 m") == frozenset()
    assert objects_named("search: cup ahead at 2 m; red chair left 5 at 1 m") == {"cup", "red chair"}


def test_a_quoted_place_is_right_where_it_stands_so_in_the_prompt() -> None:
    asked = (
        "task: find the cup\nmemory: saw red cup far left 3.0 m; searched ahead 2.0 m\nlast: none\nturned: 0"
    )
    said = "turn left large\nrecall: red cup was {}; silver bin ahead at 2.0 m."
    assert quotes_right(said.format("far left 3.0 m"), asked) is True
    assert quotes_right(said.format("far left 2.5 m"), asked) is False
    assert quotes_right(said.format("left 3.0 m"), asked) is False
    assert quotes_right(SEEN, asked) is None


@pytest.mark.lengthy
def test_questions_about_homes_are_the_same_in_every_look() -> None:
    plain, dim = (list(simulated_tasks([look], 6, 1)) for look in ("plain", "dim"))
    assert [one.user_text for one in plain] == [one.user_text for one in dim]
    assert all(one.jpeg() != other.jpeg() for one, other in zip(plain, dim, strict=True))
    for task in plain:
        assert objects_named(task.expected) <= task.in_view
    with pytest.raises(ConfigError, match="look 'gloomy' is unknown"):
        list(simulated_tasks(["gloomy"], 1, 1))


def answer(text: str, in_view: set[str]) -> Answer:
    task = FrameTask("s", "", SEEN, frozenset(in_view), "red cup")
    return Answer(task, text)


def test_figures_count_actions_and_objects() -> None:
    figures = summarise(
        [
            answer(SEEN, {"green vase", "silver bin"}),
            answer("stop\narrived: red cup ahead at 1 m", {"red cup"}),
            answer("turn left larger\nsearch: silver bin left 5 at 2 m", {"silver bin", "red cup"}),
        ]
    )
    assert figures["action_agreement"]["share"] == pytest.approx(1 / 3)
    assert (figures["agreement_target_in_view"]["share"], figures["agreement_target_in_view"]["n"]) == (0, 2)
    assert figures["object_precision"] == 1.0
    assert figures["object_recall"] == pytest.approx(3 / 6)
    nothing = summarise([answer("", set())])
    assert nothing["object_precision"] is None and nothing["agreement_target_in_view"] is None


@pytest.mark.lengthy
def test_the_shipped_pair_answers_for_pictures_of_a_folder(tmp_path: Path) -> None:
    example = next(home_examples(first_home_seed(5)))
    tasks = [
        {
            "instruction": "find the red cup",
            "user_text": q.user_text,
            "answer": q.answer,
            "action": q.answer.split("\n")[0],
        }
        for q in example.queries[:2]
    ]
    folder = write_folder(tmp_path, [pose(0, tasks=tasks)], example.jpeg)
    figures = evaluate_frames(folder, json_file=tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["sets"].keys() == {"dim", "plain"}
    assert figures["sets"]["dim"] == figures["sets"]["plain"]
    assert figures["sets"]["plain"]["answers"] == 2
    (tmp_path / "dim" / "0.jpg").write_bytes(b"no picture")
    with pytest.raises(ConfigError, match="not a picture"):
        evaluate_frames(folder)
