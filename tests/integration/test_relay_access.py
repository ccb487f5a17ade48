"""Keys, logins and strangers at a relay; each robot has pages of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.consoles import wait_until
from support.relays import drive_ahead, make_relays
from websockets.exceptions import InvalidStatus

from outrider.core.errors import ConfigError
from outrider.core.values import LinkState
from outrider.runtime.wiring.console_relay import robot_end
from outrider.wire.keys import create_keys, revoke_robots


@pytest.mark.parametrize("stranger", ["unknown robot", "unknown relay"])
def test_without_the_right_keys_nothing_passes(tmp_path: Path, stranger: str) -> None:
    relays = make_relays(tmp_path)
    create_keys(tmp_path / "other", ("go2",))
    forged = json.loads((tmp_path / "other" / "go2.key").read_text())
    if stranger == "unknown robot":
        forged["server"] = json.loads((relays.keys / "go2.key").read_text())["server"]
    path = relays.keys / "go2.key"
    path.write_text(json.dumps(forged))
    with relays.serving(), relays.robot(awaited=False) as dialled:
        if stranger == "unknown robot":
            wait_until(lambda: dialled.end.state is LinkState.REFUSED, "the robot is told")
        status, text = relays.e_stop()
        assert status == 503 and "does not reach" in text and dialled.robot.e_stops == []
        assert json.loads(relays.ask("/robots", "GET")[1]) == {"go2": False}


def test_two_robots_have_pages_of_their_own(tmp_path: Path) -> None:
    relays = make_relays(tmp_path, ("go2-a", "go2-b"))
    with relays.serving(), relays.robot("go2-a") as first, relays.robot("go2-b") as second:
        drive_ahead(relays.page("go2-b"), second)
        assert relays.e_stop("go2-a")[0] == 200
        assert first.robot.e_stops, "the first of the two connections to bring the stop answers for both"
        wait_until(lambda: first.robot.e_stops == [True, True], "the stop by the other connection")
        assert first.robot.drives == [] and second.robot.e_stops == []
        revoke_robots(relays.keys, ("go2-a",))
        wait_until(lambda: first.end.state is not LinkState.CONNECTED, "the revoked robot is cut off")
        assert relays.e_stop("go2-a")[0] == 404
        assert relays.e_stop("go2-b")[0] == 200


def test_a_login_is_needed_for_all_but_the_stop(tmp_path: Path) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, login=True, token_file=str(token))
    with relays.serving(), relays.robot() as dialled:
        with pytest.raises(InvalidStatus):
            relays.page()
        assert [relays.ask(path, "GET")[0] for path in ("/", "/robots", "/robots/go2/")] == [303] * 3
        assert relays.e_stop(Origin="http://elsewhere")[0] == 403
        assert dialled.robot.e_stops == []
        assert relays.e_stop()[0] == 200 and all(dialled.robot.e_stops)
        cookie = relays.log_in(token)
        assert relays.page(cookie=cookie).name
        assert relays.ask("/robots/nobody/", "GET", Cookie=cookie)[0] == 404


def test_a_robot_whose_key_another_one_has_too_is_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    relays = make_relays(tmp_path)
    with relays.serving(), relays.robot() as first, relays.robot(awaited=False) as second:
        page = relays.page()
        wait_until(lambda: any("another robot with this key" in line for line in caplog.messages), "a word")
        assert first.end.state is LinkState.CONNECTED and second.end.state is not LinkState.CONNECTED
        drive_ahead(page, first)
        assert second.robot.drives == []
        assert relays.e_stop()[0] == 200
        wait_until(lambda: first.robot.e_stops and second.robot.e_stops, "both stop")


def test_a_stranger_is_not_told_which_robots_there_are(tmp_path: Path) -> None:
    token = tmp_path / "relay.token"
    relays = make_relays(tmp_path, login=True, token_file=str(token))
    with relays.serving():
        known, unknown = (relays.e_stop(name) for name in ("go2", "nobody"))
        assert known == unknown and known[0] == 503
        cookie = relays.log_in(token)
        assert relays.e_stop("nobody", Cookie=cookie)[0] == 404


def test_a_relay_is_not_dialled_without_a_key(tmp_path: Path) -> None:
    assert robot_end("", "") is None
    with pytest.raises(ConfigError, match="relay_key_file"):
        robot_end("tcp://relay:5758", "")
    with pytest.raises(ConfigError, match="outrider keys"):
        robot_end("tcp://relay:5758", str(tmp_path / "none.key"))
    with pytest.raises(ConfigError, match="tcp://HOST:PORT"):
        robot_end("relay:5758", "x")
