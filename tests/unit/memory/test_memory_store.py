"""The store: what is remembered is found again, forgotten for good, and kept within bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memories import WordEmbedder

from outrider.core.errors import MemoryStoreError, NotErasedError
from outrider.core.values import Place, Pose2D, RecordKind, Sighting, Visibility
from outrider.memory.observer import Observer
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.records import RecordFilter
from outrider.memory.store.store import MemoryStore

DAY_S = 86_400.0
NOW_S = 1_700_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path / "memory.db", WordEmbedder()) as opened:
        yield opened


def texts(store: MemoryStore) -> set[str]:
    return {record.text for record in store.newest(1000)}


def files_hold(folder: Path, words: str) -> bool:
    return any(words.encode() in path.read_bytes() for path in folder.iterdir())


def test_what_is_told_is_private_and_found_again_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a" / "memory.db"
    with MemoryStore(path, WordEmbedder()) as store:
        added = store.add("  my keys hang by the door ", place=Place(1.0, 2.0, "home"), time_s=NOW_S)
        store.add("the cat sleeps", time_s=NOW_S)
    with MemoryStore(path, WordEmbedder()) as store:
        best = store.recall("where are my keys")[0]
        store.verify()
    assert best.record == added and added.text == "my keys hang by the door"
    assert added.visibility is Visibility.PRIVATE and added.kind is RecordKind.TOLD
    assert best.score > best.similarity > 0.0
    assert path.stat().st_mode & 0o777 == 0o600


def test_meaning_decides_and_words_help(store: MemoryStore) -> None:
    store.add("blue cup on the table")
    store.add("Priya borrowed the drill")
    assert store.recall("drill of priya", limit=1)[0].record.text.startswith("Priya")
    assert len(store.recall("cup", limit=5)) == 2


def test_filters_of_time_place_kind_and_visibility(store: MemoryStore) -> None:
    here, far, elsewhere = Place(0.0, 0.0, "h"), Place(5.0, 0.0, "h"), Place(0.0, 0.0, "other")
    store.add("ball one", place=here, time_s=NOW_S)
    store.add("ball two", place=far, time_s=NOW_S + 10, visibility=Visibility.SHAREABLE)
    store.add("ball three", place=elsewhere, time_s=NOW_S + 20)
    store.see("ball four", Place(2.5, 2.5, "h"), time_s=NOW_S + 30)
    store.add("ball five", time_s=NOW_S + 40)

    def found(only: RecordFilter) -> set[str]:
        listed = {record.text.split()[1] for record in store.newest(9, only)}
        assert listed == {hit.record.text.split()[1] for hit in store.recall("ball", 9, only)}
        return listed

    assert found(RecordFilter(since_s=NOW_S + 15)) == {"three", "four", "five"}
    assert found(RecordFilter(until_s=NOW_S + 15)) == {"one", "two"}
    assert found(RecordFilter(kind=RecordKind.SEEN)) == {"four"}
    assert found(RecordFilter(visibility=Visibility.SHAREABLE)) == {"two", "four"}
    assert found(RecordFilter(near=here, radius_m=3.0)) == {"one"}, "a circle, not its square"
    assert found(RecordFilter(near=here, radius_m=4.0)) == {"one", "four"}


def test_seeing_a_thing_again_at_its_place_renews_the_record(store: MemoryStore) -> None:
    first = store.see("red ball", Place(1.0, 1.0, "h"), time_s=NOW_S)
    again = store.see("red ball", Place(1.5, 1.0, "h"), time_s=NOW_S + 60)
    assert again.id == first.id and store.count() == 1
    assert (again.created_s, again.updated_s, again.place) == (NOW_S, NOW_S + 60, Place(1.5, 1.0, "h"))
    for what, place in (
        ("red ball", Place(4.0, 1.0, "h")),
        ("red box", again.place),
        ("red ball", Place(1.0, 1.0)),
    ):
        assert place is not None and store.see(what, place, time_s=NOW_S + 61).id != first.id
    near = RecordFilter(near=Place(1.5, 1.0, "h"), radius_m=0.2)
    assert {hit.record.text for hit in store.recall("red ball", 9, near)} == {"red ball", "red box"}
    store.verify()


def test_sightings_are_of_one_home_newest_last_and_never_what_was_told(store: MemoryStore) -> None:
    store.add("red ball", visibility=Visibility.SHAREABLE, place=Place(9.0, 9.0, "h"))
    store.see("red ball", Place(1.0, 0.0, "h"), time_s=NOW_S)
    store.see("red ball", Place(5.0, 0.0, "h"), time_s=NOW_S + 1)
    store.see("red ball", Place(7.0, 0.0, "other"), time_s=NOW_S + 2)
    assert store.sightings("red ball", "h") == [
        Sighting("red ball", 1.0, 0.0),
        Sighting("red ball", 5.0, 0.0),
    ]
    assert store.sightings("red ball", "h", limit=1) == [Sighting("red ball", 5.0, 0.0)]
    assert store.sightings("red", "h") == [] and store.seen_things("h") == ["red ball"]


def test_what_is_forgotten_is_gone_from_the_file_too(store: MemoryStore, tmp_path: Path) -> None:
    kept = store.add("the cat sleeps on the sofa")
    first = store.add("my passport lies in the drawer")
    store.add("the passport of my sister is green")
    store.add("a passport photo is in the wallet")
    assert files_hold(tmp_path, "passport")
    assert store.forget([first.id, 999]) == 1
    assert store.forget_matching("passport sister?") == 1
    assert texts(store) == {kept.text, "a passport photo is in the wallet"}
    assert store.forget_matching("passports") == 1, "words count in any form"
    assert not files_hold(tmp_path, "passport") and not files_hold(tmp_path, "drawer")
    store.verify()
    assert store.forget_all() == 1 and store.count() == 0 and not files_hold(tmp_path, "sofa")
    assert store.add("new").id > first.id + 2, "an id is never used twice"


def test_words_that_say_nothing_forget_nothing(store: MemoryStore) -> None:
    store.add("this is the one")
    with pytest.raises(MemoryStoreError, match="no word"):
        store.forget_matching("this is the")
    assert store.count() == 1


def test_the_oldest_sightings_go_first_and_what_was_told_last(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", WordEmbedder(), limits=StoreLimits(max_records=4)) as store:
        store.add("told old", time_s=NOW_S)
        for number in range(4):
            store.see(f"thing {number}", Place(0.0, 0.0), time_s=NOW_S + 1 + number)
        assert texts(store) == {"told old", "thing 1", "thing 2", "thing 3"}
        for number in range(4):
            store.add(f"told {number}", time_s=NOW_S + 10 + number)
        assert texts(store) == {f"told {number}" for number in range(4)}
        store.verify()


def test_records_past_the_age_are_dropped_once_the_time_was_seen_to_pass(tmp_path: Path) -> None:
    """After one and a half times the maximum age at the latest; the store looks day by day."""
    with MemoryStore(tmp_path / "m.db", WordEmbedder(), limits=StoreLimits(max_age_days=10.0)) as store:
        store.add("old", time_s=NOW_S)
        store.see("seen again", Place(0.0, 0.0), time_s=NOW_S)
        for day in range(1, 16):
            store.see("seen again", Place(0.0, 0.0), time_s=NOW_S + day * DAY_S)
            assert "old" in texts(store)
        store.add("new", time_s=NOW_S + 15.1 * DAY_S)
        assert texts(store) == {"seen again", "new"}


def test_limits_are_those_of_whoever_has_some(tmp_path: Path) -> None:
    """A command that adds a record without limits of its own forgets nothing: the node's limits apply."""
    path = tmp_path / "m.db"
    for number in range(3):
        with MemoryStore(path, WordEmbedder()) as store:
            store.add(f"old {number}", time_s=NOW_S + number)
            assert store.count() == number + 1
    with MemoryStore(path, WordEmbedder(), limits=StoreLimits(max_records=2, max_age_days=36_500.0)) as store:
        assert texts(store) == {"old 1", "old 2"}
    with MemoryStore(path, WordEmbedder(), limits=StoreLimits()) as store:
        assert store.count() == 2, "their stamps alone make nothing old"


@pytest.mark.lengthy
def test_the_bound_on_the_disk_holds(tmp_path: Path) -> None:
    limits = StoreLimits(max_mb=1.0)
    with MemoryStore(tmp_path / "m.db", WordEmbedder(), limits=limits) as store:
        for number in range(500):
            store.add(f"{number} " + "long text " * 150, time_s=NOW_S + number)
        assert 50 < store.count() < 500 and store.size_mb() <= 1.0
        assert store.newest(1)[0].text.startswith("499 ")
        store.verify()


def test_thumbnails_are_kept_and_checked(store: MemoryStore) -> None:
    jpeg = bytes.fromhex("ffd8ffc0000b080002000301011100ffd9")
    record = store.see("red ball", Place(0.0, 0.0), thumbnail=jpeg)
    assert record.has_thumbnail and store.thumbnail(record.id) == jpeg
    assert store.see("red ball", Place(0.1, 0.0)).has_thumbnail, "no new picture keeps the old one"
    for bad in (b"no picture", jpeg + bytes(70_000)):
        with pytest.raises(MemoryStoreError, match="thumbnail"):
            store.add("x", thumbnail=bad)
    assert store.thumbnail(999) == b""


def test_export_has_every_record(store: MemoryStore) -> None:
    store.add("first", time_s=NOW_S)
    store.see("second", Place(1.0, 2.0, "h"), time_s=NOW_S)
    first, second = store.export()
    assert first == {
        "id": 1,
        "text": "first",
        "kind": "told",
        "visibility": "private",
        "created": "2023-11-14T22:13:20.000+00:00",
        "updated": "2023-11-14T22:13:20.000+00:00",
    }
    assert (second["visibility"], second["x"], second["home"]) == ("shareable", 1.0, "h")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("a" * 1_000_000, "1000000 characters"),
        ("\x7fELF\x02\x01\x01\x00", "control characters"),
        (b"caf\xe9".decode(errors="surrogateescape"), "no text"),
    ],
)
def test_what_is_no_plain_text_is_refused(store: MemoryStore, text: str, words: str) -> None:
    for refuse in (store.add, store.recall, store.forget_matching):
        with pytest.raises(MemoryStoreError, match=words):
            refuse(text)
    with pytest.raises(MemoryStoreError, match=words):
        store.see(text, Place(0.0, 0.0))
    assert store.count() == 0


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE records; --", 'say "hi" OR NOT text:*', "日本の鍵 🔑", "a-b (c) NEAR/3 ^d*", "?"]
)
def test_texts_are_only_ever_texts(store: MemoryStore, text: str) -> None:
    store.add(text)
    assert store.recall(text)[0].record.text == text
    store.verify()


def test_a_place_must_be_finite(store: MemoryStore) -> None:
    with pytest.raises(MemoryStoreError, match="finite"):
        store.add("x", place=Place(float("nan"), 0.0))


def test_what_no_verifier_has_read_to_its_end_is_not_remembered(store: MemoryStore) -> None:
    observer, here = Observer(store, "home"), Pose2D(0.0, 0.0, 0.0)
    action, text = "move forward small\n", "move forward small\napproach: red ball ahead at 2.0 m."
    for step, (begun_alone, ended_alone) in enumerate([(True, False), (False, True), (True, True)]):
        observer.on_text(("s", step), action, False, here, NOW_S, alone=begun_alone)
        assert observer.on_text(("s", step), text, True, here, NOW_S, alone=ended_alone) == []
    observer.on_text(("s", 9), action, False, here, NOW_S)
    (seen,) = observer.on_text(("s", 9), text, True, here, NOW_S)
    assert seen.text == "red ball" and store.count() == 1


def test_the_store_is_held_against_nobody_while_a_sighting_is_embedded(tmp_path: Path) -> None:
    class Meanwhile(WordEmbedder):
        def embed(self, text: str) -> np.ndarray[Any, Any]:
            other.add("written meanwhile")
            return super().embed(text)

    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as other:
        with MemoryStore(tmp_path / "m.db", Meanwhile()) as store:
            store.see("a red cup", Place(1.0, 0.0, "home"), time_s=NOW_S)
        assert texts(other) == {"a red cup", "written meanwhile"}


@pytest.mark.lengthy
def test_a_thing_that_several_see_at_once_is_one_and_may_be_forgotten_meanwhile(tmp_path: Path) -> None:
    """Two stores have the file open, each with two threads."""
    path, failed = tmp_path / "shared.db", []
    begin = threading.Barrier(4)

    def see(store: MemoryStore, forgets: bool) -> None:
        begin.wait()
        try:
            for n in range(30):
                assert store.see(f"thing {n}", Place(1.0, 2.0, "home")).text == f"thing {n}"
                assert store.see("chair", Place(1.0, 2.0, "home")).text == "chair"
                if forgets:
                    store.forget(record.id for record in store.seen("chair"))
        except NotErasedError:
            pass
        except Exception as error:
            failed.append(error)

    with (
        MemoryStore(path, WordEmbedder(), forget_wait_ms=0) as first,
        MemoryStore(path, WordEmbedder()) as second,
    ):
        seeing = [threading.Thread(target=see, args=(one, False)) for one in (first, second, second)]
        seeing.append(threading.Thread(target=see, args=(first, True)))
        for thread in seeing:
            thread.start()
        for thread in seeing:
            thread.join()
        assert not failed
        assert len(first.seen("chair")) <= 1
        assert [len(first.seen(f"thing {n}")) for n in range(30)] == [1] * 30
        first.verify()


@pytest.mark.lengthy
def test_a_sound_store_is_verified_while_another_writes(tmp_path: Path) -> None:
    path, ended = tmp_path / "shared.db", threading.Event()

    def write() -> None:
        with MemoryStore(path, WordEmbedder()) as store:
            while not ended.is_set():
                store.forget_matching("passing") if store.count() > 5 else store.add("passing thought " * 99)

    with MemoryStore(path, WordEmbedder()) as store:
        store.add("it stays")
        writing = threading.Thread(target=write)
        writing.start()
        try:
            for _ in range(300):
                store.verify()
        finally:
            ended.set()
            writing.join()
