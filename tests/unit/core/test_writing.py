"""Paths that cannot be written are named before long work begins, and files are replaced whole."""

import contextlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.core.files.writing import (
    check_not_read,
    checked_file,
    checked_folder,
    checked_replaced,
    make_folder,
    replace_file,
    replaced_in,
    unfinished,
    write_new,
    writing_to,
)


def test_places_that_can_be_written_are_handed_back_and_nothing_is_left_there(tmp_path: Path) -> None:
    file = tmp_path / "new" / "figures.json"
    assert checked_file(file) == file
    assert checked_folder(tmp_path / "plots" / "now") == tmp_path / "plots" / "now"
    assert list(tmp_path.iterdir()) == []
    assert checked_file(None) is None and checked_folder(None) is None


@pytest.mark.parametrize("check", [checked_file, checked_folder])
def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path, check) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file"):
        check(tmp_path / "file" / "inside" / "figures.json")


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        checked_file(tmp_path)


@pytest.mark.parametrize("place", ["/proc/figures.json", "/proc/new/figures.json", f"/tmp/{'x' * 300}"])
def test_a_place_where_nothing_can_be_made_is_found_out(place: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot write /(proc|tmp)"):
        checked_file(Path(place))


def test_the_check_leaves_what_is_there_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text("{}")
    before = file.stat()
    assert checked_file(file) == file and checked_folder(tmp_path) == tmp_path
    assert file.read_text() == "{}" and file.stat().st_mtime_ns == before.st_mtime_ns
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_is_an_error_with_the_path(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"cannot write .*film.*No space left.*: make room, or choose"),
        writing_to(tmp_path / "film"),
    ):
        raise OSError(28, "No space left on device")


def test_a_folder_that_is_made_is_its_owner_s_alone_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "out" / "demo"
    before = os.umask(0)
    try:
        make_folder(folder)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent, tmp_path)]
    assert modes == [0o700, 0o700, 0o755]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    replace_file(file, b"first")
    (tmp_path / "card.json.partial").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot write .*card\.json \(No space left on device\)"):
        replace_file(file, b"second")
    assert file.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["card.json"]


def test_a_file_is_private_and_whole_whenever_its_process_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("0" * 4_000_000)
    file.chmod(0o644)
    code = (
        "import sys; from pathlib import Path; from outrider.core.files.writing import replace_file\n"
        "for digit in '123456789' * 1000:\n"
        "    replace_file(Path(sys.argv[1]), digit.encode() * 4_000_000); print(digit, flush=True)"
    )
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None and writer.stdout.readline()
            writer.kill()
        assert len(content := file.read_bytes()) == 4_000_000 and len(set(content)) == 1
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_no_file_is_written_in_place(tmp_path: Path) -> None:
    replace_file(Path("/dev/null"), b"figures")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        replace_file(tmp_path / "link", b"figures")


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    run, link = tmp_path / "run.mcap", tmp_path / "link"
    run.write_text("a run")
    link.symlink_to(run)
    for read in (run, str(run), link):
        with pytest.raises(ConfigError, match="choose another file"):
            check_not_read(run, ["find the red ball " * 50, "~no one, stop", "nul\0", None, 3, read])
    check_not_read(run, [tmp_path, tmp_path / "other", ""])
    check_not_read(tmp_path / "new.json", [run])
    check_not_read(None, [run])


def test_what_could_not_be_replaced_in_the_end_is_refused_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("there")
    for link, to in (("link", "file"), ("dangling", "nothing")):
        (tmp_path / link).symlink_to(tmp_path / to)
        with pytest.raises(ConfigError, match="is a link"):
            checked_replaced(tmp_path / link)
    assert checked_replaced(tmp_path / "file") == tmp_path / "file" and checked_replaced(None) is None


@pytest.mark.parametrize("name", ["/dev/stdout", "printed"])
def test_the_file_that_is_printed_to_is_refused_and_a_pipe_is_not(tmp_path: Path, name: str) -> None:
    code = "import sys, pathlib; from outrider.core.files import writing as w; "
    command = [sys.executable, "-c", code + "w.checked_replaced(pathlib.Path(sys.argv[1]))", name]
    with (tmp_path / "printed").open("w") as printed:
        done = subprocess.run(command, stdout=printed, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert "is where the printed output goes" in done.stderr
    subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=tmp_path)


def at_once(work: Callable[[int], None], number: int = 4) -> None:
    """Run `work` in `number` threads that start together and switch often; raise the first error."""
    begin, failed = threading.Barrier(number), []

    def begun(n: int) -> None:
        begin.wait()
        try:
            work(n)
        except BaseException as error:
            failed.append(error)

    working = [threading.Thread(target=begun, args=(n,)) for n in range(number)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failed:
        raise failed[0]


def test_of_several_that_replace_a_file_at_once_each_does_so_whole(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    replace_file(file, b"0")

    def work(n: int) -> None:
        for length in range(1, 60):
            if n:
                replace_file(file, str(n).encode() * 999 * length)
            else:
                assert len(set(file.read_bytes())) == 1

    at_once(work)
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_of_several_that_make_a_file_at_once_one_does_and_nobody_reads_a_part(tmp_path: Path) -> None:
    made = []
    for attempt in range(20):
        file, content = tmp_path / str(attempt), b"content" * 999

        def work(n: int, file: Path = file, content: bytes = content) -> None:
            if n < 3:
                with contextlib.suppress(FileExistsError):
                    write_new(file, content)
                    made.append(file)
            while not file.exists():
                pass
            assert file.read_bytes() == content

        at_once(work)
    assert sorted(made) == sorted(tmp_path.iterdir()) and len(made) == 20


def test_what_a_kill_left_is_written_over_and_what_is_not_finished_is_removed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "film.mp4"
    (tmp_path / "film.mp4.partial").write_bytes(b"half of an earlier film")
    with unfinished(file) as partial:
        partial.write_bytes(b"film")
        partial.replace(file)
    with pytest.raises(ZeroDivisionError), unfinished(file) as partial:
        partial.write_bytes(b"half")
        raise ZeroDivisionError
    assert file.read_bytes() == b"film" and list(tmp_path.iterdir()) == [file]


def test_a_timeout_while_another_process_writes_is_reported(tmp_path: Path) -> None:
    file, gives_up = tmp_path / "film.mp4", iter([False, False, True])
    with unfinished(file) as partial:
        with (
            pytest.raises(ConfigError, match="another process is writing"),
            unfinished(file, lambda: next(gives_up)),
        ):
            pass
        partial.write_bytes(b"film")
        partial.replace(file)
    assert file.read_bytes() == b"film" and list(tmp_path.iterdir()) == [file]


def test_a_new_file_replaces_no_file_and_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").write_text("here first")
    for name in ("link", "file"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    assert (tmp_path / "file").read_text() == "here first"


def test_files_of_a_folder_are_replaced_once_all_are_there(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("old")
    (tmp_path / "other").write_text("stays")
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / "shard").write_text("of a run that was killed")
    with (tmp_path / "weights").open() as reader:
        with pytest.raises(ZeroDivisionError), replaced_in(tmp_path) as made:
            (made / "weights").write_text("half")
            raise ZeroDivisionError
        with replaced_in(tmp_path) as made:
            (made / "weights").write_text("new")
            (made / "card").write_text("too")
            assert (tmp_path / "weights").read_text() == "old"
        assert reader.read() == "old"
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"weights": "new", "card": "too", "other": "stays"}
