"""A journal that cannot be written is reported on the page and in the diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NodeThread, wait_until
from support.consoles import Page

from outrider.nodes.observers.console_node import ConsoleNode

pytestmark = pytest.mark.ros
NOT_WRITTEN = "the journal is not written"


def test_a_warning_stays_until_the_journal_can_be_written(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    path = tmp_path / "robot.journal"
    console = run_node(lambda: ConsoleNode({"port": 0, "journal": str(path)})).node
    page = Page(console._console).seated()
    wait_until(lambda: path.exists() and "take" in path.read_text(), "the lines so far")
    assert console.health() == ("", {**console.health()[1], "journal": "written"})
    path.rename(tmp_path / "aside")
    path.mkdir()
    page.send(do="leave")
    while NOT_WRITTEN not in page.read("state")["warning"]:
        pass
    warning, values = console.health()
    assert NOT_WRITTEN in warning and str(path) in str(values["journal"])
    path.rmdir()
    (tmp_path / "aside").rename(path)
    page.send(do="take")
    while NOT_WRITTEN in page.read("state")["warning"]:
        pass
    assert console.health()[0] == ""
    page.socket.close()
