"""Files with what a person said are readable by their owner alone, under any umask and while open."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.memories import WordEmbedder

from outrider.console.access import load_token
from outrider.core.errors import ConfigError, MemoryStoreError
from outrider.memory.store.store import MemoryStore
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.pictures.run_pictures import write_pictures
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.reports.report import RunRecord, Shot, write_summary
from outrider.runtime.wiring.memory_stores import export_memory
from outrider.wire.keys import create_keys

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))}


@pytest.fixture(params=[0o000, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_a_store_and_its_log_are_private_while_they_are_open(tmp_path: Path, umask: None) -> None:
    folder = tmp_path / "home" / ".outrider"
    with MemoryStore(folder / "memory.db", WordEmbedder(), key_file=folder / "memory.key") as store:
        store.add("the keys are under the mat")
        found = modes(tmp_path)
    assert found == {
        "home": 0o700,
        ".outrider": 0o700,
        "memory.db": 0o600,
        "memory.db-shm": 0o600,
        "memory.db-wal": 0o600,
        "memory.key": 0o600,
    }


def test_what_an_earlier_version_left_open_to_all_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with MemoryStore(path, WordEmbedder()) as store:
        store.add("the keys are under the mat")
        for file in tmp_path.iterdir():
            file.chmod(0o644)
        with MemoryStore(path, WordEmbedder()) as second:
            assert second.count() == 1
            assert set(modes(tmp_path).values()) == {0o600}


def test_a_link_in_place_of_a_store_or_its_log_is_refused(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "memory.db", tmp_path / "elsewhere"
    path.symlink_to(elsewhere)
    with pytest.raises(MemoryStoreError, match=r"memory\.db is a link"):
        MemoryStore(path, WordEmbedder())
    assert not elsewhere.exists()
    path.unlink()
    (tmp_path / "memory.db-wal").symlink_to(elsewhere)
    with pytest.raises(MemoryStoreError, match=r"memory\.db-wal is a link"):
        MemoryStore(path, WordEmbedder())


@as_root
def test_a_store_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    MemoryStore(path, WordEmbedder()).close()
    os.chown(path, 12345, 12345)
    with pytest.raises(MemoryStoreError, match="belongs to another user"):
        MemoryStore(path, WordEmbedder())


def test_keys_and_tokens_are_private(tmp_path: Path, umask: None) -> None:
    create_keys(tmp_path / "keys", ("go2",))
    load_token(tmp_path / "console" / "token")
    found = modes(tmp_path)
    assert found.pop("keys") == found.pop("console") == 0o700
    assert found == {"go2.key": 0o600, "verifier.key": 0o600, "token": 0o600}


def test_the_console_leaves_its_folder_in_the_home_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".outrider").mkdir(0o755)
    load_token(tmp_path / ".outrider" / "console.token")
    assert modes(tmp_path) == {".outrider": 0o700, "console.token": 0o600}


AS_ANOTHER = """
import os
from pathlib import Path
from outrider.core.files.private_files import make_private_folder
os.setgid(65534), os.setuid(65534)
make_private_folder(Path("keys"))
"""


@as_root
def test_a_user_with_the_home_of_another_may_write_elsewhere(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "place"
    home.mkdir(0o700)
    place.mkdir()
    place.chmod(0o777)
    command = [sys.executable, "-c", AS_ANOTHER]
    subprocess.run(command, cwd=place, env={**os.environ, "HOME": str(home)}, check=True, timeout=60)
    assert modes(place) == {"keys": 0o700}


@pytest.mark.lengthy
def test_a_report_with_its_film_and_map_is_private(tmp_path: Path, umask: None) -> None:
    shot = Shot(0.0, b"no picture")
    run = RunRecord("find my keys", False, "cancelled", "", "outrider", 1.0, shots=[shot])
    write_summary(run, tmp_path / "out" / "run")
    write_pictures(run, tmp_path / "out" / "run")
    found = modes(tmp_path)
    assert found.pop("out") == found.pop("run") == 0o700
    assert found == dict.fromkeys(["report.json", "rounds.jsonl", "run.mp4", "trajectory.png"], 0o600)


@pytest.mark.lengthy
def test_a_report_over_an_earlier_one_open_to_all_is_private(tmp_path: Path) -> None:
    for name in ("report.json", "rounds.jsonl", "run.mp4", "trajectory.png"):
        (tmp_path / name).write_text("an earlier run")
        (tmp_path / name).chmod(0o666)
    shot = Shot(0.0, b"no picture")
    run = RunRecord("", False, "", "", "", 1.0, shots=[shot])
    write_summary(run, tmp_path)
    write_pictures(run, tmp_path)
    assert set(modes(tmp_path).values()) == {0o600}


def test_logs_and_parameters_of_a_graph_are_private(tmp_path: Path, umask: None) -> None:
    with Supervisor(tmp_path / "logs", os.environ) as supervisor:
        supervisor.start("markers", tmp_path / "logs" / "none.yaml")
    assert modes(tmp_path) == {"logs": 0o700, "markers.log": 0o600}


def test_figures_are_private_and_a_link_is_not_followed(tmp_path: Path, umask: None) -> None:
    write_figures(tmp_path / "new" / "figures.json", {"text": "my keys"})
    assert modes(tmp_path) == {"new": 0o700, "figures.json": 0o600}
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        write_figures(tmp_path / "link.json", {})


def test_an_exported_memory_is_private(tmp_path: Path, umask: None) -> None:
    with MemoryStore(tmp_path / "memory.db", WordEmbedder()) as store:
        store.add("the keys are under the mat")
        export_memory(store, tmp_path / "memories.jsonl")
        assert set(modes(tmp_path).values()) == {0o600}
    assert json.loads((tmp_path / "memories.jsonl").read_text())["text"] == "the keys are under the mat"


def test_an_export_that_fails_leaves_the_one_before(tmp_path: Path, umask: None) -> None:
    exported = tmp_path / "memories.jsonl"
    with MemoryStore(tmp_path / "memory.db", WordEmbedder()) as store:
        store.add("the keys are under the mat")
        export_memory(store, exported)
        before = exported.read_text()
        damaged = store.add("the window is open").id
        store._connection.execute("UPDATE records SET created_s = x'00' WHERE id = ?", (damaged,))
        with pytest.raises(MemoryStoreError, match="is damaged"):
            export_memory(store, exported)
    assert exported.read_text() == before
    assert {path.name for path in tmp_path.iterdir()} == {"memory.db", "memories.jsonl"}


@pytest.mark.lengthy
def test_an_export_by_the_shell_is_closed_before_it_is_written(tmp_path: Path, umask: None) -> None:
    store = tmp_path / "memory.db"
    command = [sys.executable, "-m", "outrider", "memory"]
    subprocess.run([*command, "add", "my keys", "--store", str(store)], check=True, capture_output=True)
    with (tmp_path / "memories.jsonl").open("w") as file:
        subprocess.run([*command, "export", "--store", str(store)], check=True, stdout=file)
    assert "my keys" in (tmp_path / "memories.jsonl").read_text()
    assert set(modes(tmp_path).values()) == {0o600}


def test_a_memory_is_not_exported_over_itself_or_its_key(tmp_path: Path, umask: None) -> None:
    memory, key = tmp_path / "memory.db", tmp_path / "memory.key"
    with MemoryStore(memory, WordEmbedder(), key_file=key) as store:
        store.add("the keys are under the mat")
        for kept in (memory, tmp_path / "memory.db-wal", key):
            content = kept.read_bytes()
            with pytest.raises(ConfigError, match="choose another file"):
                export_memory(store, kept, str(key))
            assert kept.read_bytes() == content
    with MemoryStore(memory, WordEmbedder(), key_file=key) as store:
        assert store.count() == 1
