"""What cannot be written is said before long work, with the path."""

import os
import stat
import subprocess
import sys
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
            check_not_read(run, ["find the red ball " * 50, "nul\0", None, 3, read])
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
