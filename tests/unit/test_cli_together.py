"""An option that would have no effect beside the others is refused."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError

ALONE = {
    "--http": {
        "mcp": ["--host 0.0.0.0", "--port 80", "--token-file t", "--tls-cert c.pem", "--tls-key k.pem"],
    },
    "--simulation": {"mcp": ["--holds bottle", "--seed 3", "--placement hidden"]},
    "--sim": {"console": ["--holds bottle", "--seed 3", "--placement hidden"]},
    "--console": {"demo": ["--port 8088"]},
    "--relay": {"console": ["--relay-key-file models/draft/config.json"]},
    "--answers aggregate": {
        "ask keys?": ["--endpoint tcp://127.0.0.1:1", "--link lte", "--answer-model models/draft"],
        "ask keys? --answers memory": ["--link lte"],
    },
    "--endpoint": {"replay run.mcap": ["--key-file k.key"]},
    "--at": {"memory add keys": ["--home here"]},
    "--near": {"memory search keys": ["--home here", "--radius 2"]},
    "--corpus": {
        "verifier": ["--answer-model models/draft"],
        "verifier --corpus=": ["--answer-model models/draft"],  # empty: no corpus
    },
    "--draft-model": {"verifier": ["--draft-device cpu"], "verifier --draft-model=": ["--draft-device cpu"]},
    "--live": {"bench weights": ["--run ."]},
}
"""Options that need another one: by that one, then by command."""
BESIDE = {
    "--no-ros": {
        "demo": [
            *("--link lte", "--endpoint tcp://127.0.0.1:1", "--motion stepwise", "--store m.db", "--port 80"),
            *("--store-key-file m.key", "--real-time-factor 2", "--record r.mcap", "--namespace go2"),
        ]
    },
    "--simulation": {"mcp": ["--console http://127.0.0.1:8088/", "--console-token-file t"]},
    "--sim": {"console": ["--namespace go2"]},
    "--random-regimes 2": {"bench decoding": ["--regime lan", "--models models"]},
    "--live": {
        "bench decoding": [
            *("--texts 2", "--plots out", "--changes 2", "--alternatives"),
            *("--random-regimes 2", "--variant rows"),
        ]
    },
    "--changes 2": {"bench decoding": ["--regime lan", "--models models", "--texts 2", "--drafters lookup"]},
    "--alternatives": {"bench decoding": ["--ablations", "--ablate choose_length"]},
}
"""Options that have no effect together with another one: by that one, then by command."""
PASSED_OVER = [
    *[
        (f"{words} {option}", option, needed)
        for needed, by in ALONE.items()
        for words in by
        for option in by[words]
    ],
    *[
        (f"{words} {other} {option}", option, other)
        for other, by in BESIDE.items()
        for words in by
        for option in by[words]
    ],
]


def refusal(words: str) -> str:
    """Returns the error of a command line that is refused."""
    result = CliRunner().invoke(cli.app, words.split())
    assert isinstance(result.exception, ConfigError), (result.exception, result.output)
    return str(result.exception)


@pytest.fixture(autouse=True)
def keys_of_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("client", "server"):
        monkeypatch.setattr(f"outrider.wire.keys.load_{side}_keys", lambda path: path)
    monkeypatch.setattr("outrider.runtime.datasets.published_weights.check_published", lambda size: size)


@pytest.mark.lengthy
@pytest.mark.parametrize(("words", "option", "other"), PASSED_OVER)
def test_an_option_that_would_do_nothing_is_refused_with_the_one_it_depends_on(
    words: str, option: str, other: str
) -> None:
    told = refusal(words)
    assert option.split()[0] in told and other.partition(" 2")[0] in told


@pytest.mark.parametrize("words", ["console", "console --sim", "relay --key-file k.key"])
def test_a_token_is_only_given_where_one_is_asked_for(words: str) -> None:
    assert "--token-file" in refusal(f"{words} --token-file t") and "--login" in refusal(
        f"{words} --token-file t"
    )


def test_a_journal_is_not_decoded_and_no_other_file_has_its_key() -> None:
    assert "--strategy, --link cannot go with a journal" in refusal(
        "replay a.journal --link lte --strategy sd"
    )
    assert ".journal" in refusal("replay run.mcap --journal-key k")


def test_looks_of_generated_homes_are_not_those_of_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outrider.cli.checks.frames_folder", lambda folder: folder)
    monkeypatch.setattr("outrider.evaluation.robot.frames.read_tasks", lambda folder: [])
    assert "--look, --seed" in refusal("eval frames pictures --seed 2 --look dim")
