"""Private files and folders have their permissions from the first byte, under any umask."""

import logging
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import (
    home_folder,
    keep_private,
    make_private_folder,
    open_private,
    read_private,
    tighten,
    write_private,
)
from outrider.core.files.secret_file import load_secret, read_secret
from outrider.core.files.writing import alone_in

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("mode", ["w", "wb", "ab", "x"])
def test_a_file_is_private_before_anything_is_in_it(tmp_path: Path, umask: int, mode: str) -> None:
    with open_private(tmp_path / "file", mode):
        assert mode_of(tmp_path / "file") == 0o600


def test_every_missing_folder_is_made_private_and_an_existing_one_stays(tmp_path: Path, umask: int) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o700
    assert mode_of(tmp_path) == 0o755
    make_private_folder(tmp_path / "a" / "b")


def test_the_umask_of_the_process_is_never_changed(tmp_path: Path, umask: int) -> None:
    make_private_folder(tmp_path / "a")
    write_private(tmp_path / "a" / "file", "text")
    (tmp_path / "other").touch()
    assert mode_of(tmp_path / "other") == 0o666 & ~umask


def test_the_own_folder_in_the_home_is_tightened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".outrider"
    own.mkdir(mode=0o755)
    make_private_folder(own)
    assert mode_of(own) == 0o700


def test_rights_of_an_existing_file_are_tightened_before_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("what was there, and is longer")
    file.chmod(0o666)
    with open_private(file, "w") as opened:
        assert mode_of(file) == 0o600
        opened.write("new")
    assert file.read_text() == "new"
    file.chmod(0o644)
    keep_private(file)
    assert mode_of(file) == 0o600 and file.read_text() == "new"
    keep_private(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("mode", ["w", "ab", "x"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_refused_and_what_it_leads_to_is_left_alone(
    tmp_path: Path, mode: str, is_there: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    if is_there:
        elsewhere.write_text("kept")
    (tmp_path / "file").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="file is a link"):
        open_private(tmp_path / "file", mode)
    assert elsewhere.exists() == is_there
    assert not is_there or elsewhere.read_text() == "kept"


def test_devices_may_be_written(tmp_path: Path) -> None:
    write_private(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode) and mode_of(Path("/dev/null")) == 0o666
    (tmp_path / "link").symlink_to("/dev/null")
    write_private(tmp_path / "link", "text")
    script = "from pathlib import Path; from outrider.core.files.private_files import *; "
    script += "write_private(Path('/dev/stdout'), 'told')"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "told"


@as_root
def test_a_file_of_another_user_is_refused_and_keeps_its_content(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("of another")
    os.chown(file, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        open_private(file, "w")
    assert file.read_text() == "of another"
    with pytest.raises(ConfigError, match="belongs to another user"):
        keep_private(file)


@as_root
def test_an_own_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".outrider").mkdir()
    os.chown(tmp_path / ".outrider", 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        make_private_folder(tmp_path / ".outrider")


def test_a_file_system_without_rights_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "file").touch(0o644)
    monkeypatch.setattr(os, "fchmod", refuse)
    with caplog.at_level(logging.WARNING):
        write_private(tmp_path / "file", "text")
    assert "others may read" in caplog.text and (tmp_path / "file").read_text() == "text"


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        open_private(tmp_path / "file", "x")


def test_what_the_system_refuses_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*inside"):
        open_private(tmp_path / "file" / "inside", "w")
    with pytest.raises(ConfigError, match=r"cannot write .*inside"):
        make_private_folder(tmp_path / "file" / "inside")


def test_an_open_file_is_tightened_and_a_pipe_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    with (tmp_path / "file").open() as file:
        tighten(file.fileno(), "the file")
    assert mode_of(tmp_path / "file") == 0o600
    ends = os.pipe()
    for end in ends:
        tighten(end, "a pipe")
        os.close(end)


def test_a_secret_is_read_only_where_it_is_one(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    write_private(secret, "words")
    (tmp_path / "link").symlink_to(secret)
    assert read_private(secret) == read_private(tmp_path / "link") == "words"
    secret.chmod(0o604)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_private(secret)
    if os.geteuid() == 0:
        secret.chmod(0o600)
        os.chown(secret, 12345, 12345)
        with pytest.raises(ConfigError, match="belongs to another user"):
            read_private(secret)


@pytest.mark.lengthy
def test_a_secret_that_several_make_at_once_is_one(tmp_path: Path) -> None:
    for attempt in range(50):
        path, begin, made = tmp_path / str(attempt) / "console.token", threading.Barrier(6), []

        def make(path: Path = path, begin: threading.Barrier = begin, made: list[str] = made) -> None:
            begin.wait()
            made.append(load_secret(path, "token"))

        def read(path: Path = path, begin: threading.Barrier = begin, made: list[str] = made) -> None:
            begin.wait()
            while not path.exists():
                pass
            made.append(read_secret(path, "token", "wait for it"))

        making = [threading.Thread(target=one) for one in (make, make, make, make, read, read)]
        for thread in making:
            thread.start()
        for thread in making:
            thread.join()
        assert made == [path.read_text().strip()] * 6


def test_nobody_waits_for_a_pipe_in_place_of_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys")
    with alone_in(tmp_path / "keys"):
        pass


def test_a_locked_folder_delays_other_processes_for_a_bounded_time(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    with alone_in(tmp_path), alone_in(tmp_path, wait_s=0.05), alone_in(tmp_path / "missing"):
        assert time.monotonic() - begun_s >= 0.05


def test_an_unknown_home_folder_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_folder() == tmp_path / ".outrider" and in_home("~/a") == tmp_path / "a"
    with pytest.raises(ConfigError, match=r"~no user of this name/m\.db .* set HOME"):
        in_home("~no user of this name/m.db")


NO_HOME = """
import os, sys
os.setuid(4_000_000)
os.environ.pop("HOME")
os.environ.pop("XDG_CACHE_HOME", "")
for folder in (home_folder, cache_root, weights_folder):
    try:
        print(folder())
    except ConfigError as error:
        print("told", error)
"""


@pytest.mark.lengthy
@as_root
def test_the_error_of_a_user_without_a_home_folder_asks_for_one() -> None:
    imports = (
        "from outrider.core.errors import ConfigError\n"
        "from outrider.core.files.private_files import home_folder\n"
        "from outrider.models.onnx.store import cache_root\n"
        "from outrider.runtime.datasets.published_weights import weights_folder\n"
    )
    command = [sys.executable, "-c", imports + NO_HOME]
    done = subprocess.run(command, capture_output=True, text=True)
    told = done.stdout.splitlines()
    given = {**os.environ, "OUTRIDER_CACHE": "/srv/cache", "OUTRIDER_WEIGHTS": "/srv/weights"}
    done = subprocess.run(command, capture_output=True, text=True, env=given)
    assert done.stdout.splitlines()[1:] == ["/srv/cache", "/srv/weights"], done
    assert len(told) == 3 and all(one.startswith("told ~/") and "set HOME" in one for one in told), done
