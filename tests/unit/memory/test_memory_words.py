"""A note is found and forgotten by its own words, in any script and any Unicode normal form."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memories import WordEmbedder

from outrider.core.errors import StoreInputError
from outrider.memory.corpus import EmbeddedCorpus
from outrider.memory.language.words import folded, holds_all, search_words, words_of
from outrider.memory.qdrant_corpus import FleetCorpus
from outrider.memory.store.ranking import own_words
from outrider.memory.store.store import MemoryStore

# A note, and words of it as somebody may write them later.
NOTES = {
    "chinese": ("备用钥匙挂在门边的银灯旁", ["钥匙", "银灯", "门边"]),
    "japanese": ("予備の鍵は青い植木鉢の下、ガラスの棚", ["植木鉢", "ｶﾞﾗｽ", "鍵"]),
    "korean": ("여분의 열쇠는 파란 화분 아래에 있다", ["열쇠", "화분"]),
    "thai": ("กุญแจสำรองอยู่ใต้กระถางสีน้ำเงิน", ["กุญแจ", "กระถาง", "น้ำเงิน"]),
    "khmer": ("កូនសោនៅក្រោមផើងផ្កា", ["កូនសោ", "ផ្កា"]),
    "arabic": ("المِفْتَاح الاحتياطي تحت أصيص الزهور رقم ٤٢", ["المفتاح", "الزهـور", "42", "اصيص"]),
    "arabic spelling": ("مدرسة أحمد قرب مستشفى المدينة", ["مدرسه", "مستشفي"]),
    "persian": ("کلید یدکی زیر گلدان", ["كليد", "يدكي"]),
    "nordic and polish": ("Øl og ærter til Søren i Łódź", ["Soren", "ÆRTER", "lodz"]),
    "yo": ("Ёлка лежит в чулане", ["елка", "ЁЛКА"]),
    "hebrew": ("המַפְתֵּחַ נמצא מתחת לעציץ", ["המפתח", "לעציץ"]),
    "hindi": ("दरवाज़े की चाबी नीले गमले के नीचे है", ["चाबी", "दरवाज़े", "गमले"]),
    "tamil": ("சாவி நீல தொட்டியின் கீழ் உள்ளது", ["சாவி", "தொட்டியின்"]),
    "russian": ("Запасной ключ лежит под Зелёным горшком", ["КЛЮЧ", "зелёным"]),
    "greek": ("Το κλειδί κάτω από τη γλάστρα ΟΔΟΣ", ["ΚΛΕΙΔΊ", "οδος", "γλαστρα"]),
    "german": ("Der Schlüssel hängt in der Hauptstraße", ["SCHLÜSSEL", "HAUPTSTRASSE", "hauptstraße"]),
    "turkish": ("Anahtar İSTANBUL kutusunda, ışık yanında", ["istanbul", "IŞIK", "ışık"]),
    "vietnamese": ("Chìa khóa ở dưới chậu hoa", ["CHÌA", "chậu"]),
    "emoji": ("spare 🔑 by the ❤️ box, 👨‍👩‍👧 flat, 👍🏽", ["🔑", "❤", "👨‍👩‍👧", "👍🏽"]),
    "full width": ("ｔｉｃｋｅｔ ７７ in the ﬁle", ["ticket", "77", "FILE"]),
    "invisible": ("the pass\u200bport and wall\u00adet and key\u2060s", ["passport", "wallet", "keys"]),
    "combining": ("x\u0302-ray of the cafe\u0301 n\u0303andu", ["x\u0302", "café", "ñandu"]),
    "supplementary": ("the 𝐁𝐎𝐋𝐃 𠮷野家 bowl", ["bold", "𠮷野家"]),
}
CASES = [(note, word) for note, words in NOTES.values() for word in words]
FORMS = ["NFC", "NFD", "NFKC", "NFKD"]
LETTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co"))
quick = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    store = MemoryStore(tmp_path_factory.mktemp("told") / "m.db", WordEmbedder())
    for note, _ in NOTES.values():
        store.add(note)
    for number in range(40):
        store.add(f"box {number} is in the cellar")
    return store


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("note", "word"), CASES)
def test_a_word_finds_its_note(told: MemoryStore, note: str, word: str, form: str) -> None:
    asked = unicodedata.normalize(form, word)
    assert note in {found.record.text for found in told.recall(asked)}
    [held] = told.holding(asked)
    assert told.newest(1000)[-held].text == note


@pytest.mark.lengthy
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("note", "words"), NOTES.values(), ids=list(NOTES))
def test_all_its_words_forget_it_alone(note: str, words: list[str], form: str, tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as store:
        for other, _ in NOTES.values():
            store.add(unicodedata.normalize(form, other))
        assert store.forget_matching(" ".join(words)) == 1
        assert unicodedata.normalize(form, note) not in {record.text for record in store.newest(100)}
        store.verify()


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [EmbeddedCorpus, FleetCorpus])
def test_a_corpus_finds_and_forgets_them_too(kind: type, tmp_path: Path) -> None:
    where = tmp_path / "corpus.db" if kind is EmbeddedCorpus else f"qdrant:{tmp_path / 'qdrant'}"
    corpus = kind(where, WordEmbedder())
    corpus.add(note for note, _ in NOTES.values())
    for note, word in CASES:
        assert note in {found.record.text for found in corpus.recall(word)}, word
    for note, words in NOTES.values():
        assert corpus.forget_matching(" ".join(words)) == 1, note
    assert corpus.count() == 0
    corpus.close()


@pytest.mark.parametrize("note", ["what is it", "!?!", "let it be"])
def test_a_note_without_a_telling_word_is_forgotten_by_the_whole_of_it(note: str, tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as store:
        for text in (note, f"{note} here", "the lamp is red"):
            store.add(text)
        assert store.forget_matching(note.upper()) == 1
        assert {record.text for record in store.newest()} == {f"{note} here", "the lamp is red"}
        with pytest.raises(StoreInputError, match="no word to go by"):
            store.forget_matching(note)


@quick
@given(st.text(LETTERS, min_size=1, max_size=30), st.sampled_from(FORMS))
def test_every_normal_form_and_case_of_a_text_has_the_same_words(text: str, form: str) -> None:
    words = words_of(text)
    assert words_of(unicodedata.normalize(form, text)) == words
    assert words_of(folded(text)) == words
    assert words_of(text.casefold()) == words


@quick
@given(st.text(LETTERS, min_size=1, max_size=30), st.text(LETTERS, max_size=9))
def test_a_text_holds_its_own_words_and_a_search_for_them_meets_it(text: str, more: str) -> None:
    note = f"{text} {more}"
    assert holds_all(note, words_of(text))
    assert set(search_words(text)) <= set(search_words(note))


@pytest.mark.lengthy
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.text(LETTERS, min_size=1, max_size=40).filter(str.strip), st.sampled_from(FORMS))
def test_any_text_that_has_words_is_forgotten_by_them(text: str, form: str) -> None:
    store = ANY_STORE
    store.forget_all()
    store.add("something else")
    store.add(text)
    other = unicodedata.normalize(form, text).casefold()
    if not own_words(text):
        return
    assert text.strip() in {found.record.text for found in store.recall(other)}
    assert store.forget_matching(other) >= 1
    assert text.strip() not in {record.text for record in store.newest(9)}


ANY_STORE: MemoryStore


@pytest.fixture(autouse=True, scope="module")
def any_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    global ANY_STORE
    ANY_STORE = MemoryStore(tmp_path_factory.mktemp("any") / "m.db", WordEmbedder())


def test_words_by_hand() -> None:
    assert words_of("Don't mind the front-door, 2nd_key!") == [
        "don",
        "t",
        "mind",
        "the",
        "front",
        "door",
        "2nd",
        "key",
    ]
    assert words_of("LED灯 ok") == ["led 灯", "ok"]
    assert words_of("мой мои") == ["мой", "мои"], "what is another letter stays one"
    assert search_words("银灯旁") == ["银 灯", "灯 旁"] and search_words("灯") == ["灯"]
    assert words_of(" ?! -- ") == []
