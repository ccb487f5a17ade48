# SPDX-License-Identifier: Apache-2.0
"""Checks of options and arguments: what is wrong, or would do nothing, is refused before slow imports."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer

from outrider.core.errors import ConfigError
from outrider.core.language.questions import QUOTES

if TYPE_CHECKING:
    from outrider.runtime.datasets.published_weights import Size


def checked(check: Callable[[Any], object]) -> Callable[[typer.Context, Any], Any]:
    """Return the callback of an option that calls `check` with its value, or with each of several values."""

    def callback(context: typer.Context, value: Any) -> Any:
        if not context.resilient_parsing:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if item is not None and item != "":
                    check(item)
        return value

    return callback


def models_folder(folder: Path) -> None:
    """Raises ConfigError where a folder does not hold the pair."""
    from outrider.runtime.common import paths

    paths.models_folder(folder)


def model(name: str | Path) -> None:
    """Raises ConfigError where there is no such model, but for names on the Hub."""
    from outrider.runtime.common.paths import check_model

    check_model(str(name))


def cloud_draft(name: str) -> None:
    """As `model`, for what drafts beside a target."""
    from outrider.runtime.common.cloud_drafts import check_cloud_draft

    check_cloud_draft(name)


def answer_model(name: str) -> None:
    """As `model`, for what answers questions."""
    if name != QUOTES:
        model(name)


def link(name_or_file: str) -> None:
    """Raises ConfigError for an unknown network."""
    from outrider.runtime.common.links import load_network

    load_network(name_or_file)


def voice(file: str) -> None:
    """Raises ConfigError where a file is no voice of Piper."""
    from outrider.voice.speaking import check_voice

    check_voice(file)


def endpoint(where: str) -> None:
    """Raises ConfigError for an endpoint that is not well-formed."""
    from outrider.wire.endpoint import check_endpoint

    check_endpoint(where)


def listening_endpoint(where: str) -> None:
    """Raises ConfigError for an endpoint that is not well-formed to listen at."""
    from outrider.wire.endpoint import check_endpoint

    check_endpoint(where, to_bind=True)


def robot_key(file: str | Path) -> None:
    """Raises ConfigError where a file does not hold a robot's key."""
    from outrider.wire.keys import load_client_keys

    load_client_keys(Path(file))


def server_key(file: Path) -> None:
    """Raises ConfigError where a file does not hold a verifier's key and its robots."""
    from outrider.wire.keys import load_server_keys

    load_server_keys(file)


def drafters(names: str) -> None:
    """Raises ConfigError for a source of drafts that does not exist."""
    from outrider.decoding.config import DecodingConfig, drafter_names

    DecodingConfig(drafters=drafter_names(names))


def device(name: str) -> None:
    """Raises ConfigError for a GPU that is not there."""
    from outrider.runtime.common.present import check_device

    check_device(name)


def replicas(number: int) -> None:
    """Raises ConfigError for several verifiers without the package that starts them."""
    from outrider.runtime.common.present import check_ray

    if number > 1:
        check_ray()


def console(url: str) -> None:
    """Raises ConfigError for what is no address of a console."""
    from outrider.console.agents.address import ConsoleAddress

    ConsoleAddress(url)


def agent_name(name: str) -> None:
    """Raises ConfigError for what a console does not call an agent."""
    from outrider.console.agents.address import check_name

    check_name(name)


def looks(names: str) -> None:
    """Raises ConfigError for a look that homes do not have; several have commas between."""
    from outrider.simulation.looks.styles import checked_looks

    checked_looks(names.split(","))


def legs(asked: bool) -> None:
    """Raises ConfigError where the package with the robot's legs is missing."""
    if asked:
        from outrider.simulation.legs import legs_folder  # a physics engine, for a demo that walks alone

        legs_folder()


def thing(words: str) -> None:
    """Raises ConfigError for what no simulated home holds."""
    from outrider.simulation.homes.vocabulary import checked_target

    checked_target(words)


def regime(name: str) -> None:
    """Raises ConfigError for a regime that benchmarks/regimes.yaml does not have."""
    from outrider.evaluation.common.choices import REGIMES_FILE, check_regime

    check_regime(REGIMES_FILE, name)


def aggregation_regime(name: str) -> None:
    """Raises ConfigError for a regime that benchmarks/aggregation.yaml does not have."""
    from outrider.evaluation.common.choices import AGGREGATION_FILE, check_regime

    check_regime(AGGREGATION_FILE, name)


def mechanism(name: str) -> None:
    """Raises ConfigError for a mechanism that cannot be switched off."""
    from outrider.evaluation.common.choices import chosen_mechanisms

    chosen_mechanisms([name])


def ends(names: str) -> None:
    """Raises ConfigError for an end that `outrider eval kills` does not know."""
    from outrider.evaluation.kills.ends import chosen_ends

    chosen_ends(names)


def network(name: str) -> None:
    """Raises ConfigError for a network that published models are not tried over."""
    from outrider.evaluation.weights.networks import chosen_networks

    chosen_networks([name])


def num_prompts(number: int) -> None:
    """Raises ConfigError where there are not so many prompts."""
    from outrider.runtime.datasets.real_prompts import real_prompts

    real_prompts(number)


def num_questions(number: int) -> None:
    """Raises ConfigError where there are not so many questions about documents."""
    from outrider.runtime.datasets.two_sided_questions import two_sided_questions

    two_sided_questions(number)


def published_target(size: Size) -> None:
    """Raises ModelError where `make weights` has not brought a target of this size and the draft."""
    from outrider.runtime.datasets.published_weights import check_published

    check_published(size)


def frames_folder(folder: Path) -> None:
    """Raises ConfigError where a folder holds no frames for `outrider eval frames`."""
    from outrider.evaluation.robot.frames import read_tasks

    read_tasks(folder)


def sentences(folder: Path) -> None:
    """Raises ConfigError where a folder holds no sentences for `outrider eval sentences`."""
    from outrider.evaluation.voice.sentence_sets import read_sentences

    read_sentences(folder)


def voices(folder: Path) -> None:
    """Raises ConfigError where a folder holds no folders of voices."""
    from outrider.voice.sound import voices as read_voices

    read_voices(folder)


def training_data(folder: Path) -> None:
    """Raises ConfigError where a folder holds no training data."""
    from outrider.core.training_data import shard_paths

    shard_paths(folder)


def only_with(context: typer.Context, needed: str, *options: str) -> None:
    """Raises ConfigError for any of `options` without `needed`, an option or an option and its value."""
    if not _is_asked(context, needed):
        refuse(context, f"can go only with {needed}: add {needed}, or leave out the rest", *options)


def not_with(context: typer.Context, other: str, *options: str) -> None:
    """Raises ConfigError for any of `options` beside `other`, an option or an option and its value."""
    if _is_asked(context, other):
        refuse(context, f"cannot go with {other}: leave one of them away", *options)


def check_login(context: typer.Context, host: str, login: bool) -> None:
    """Raises ConfigError for --token-file where nobody is asked for a token."""
    from outrider.console.access import is_loopback

    if is_loopback(host) and not login:
        refuse(
            context, "is for a login, which nobody on this machine is asked for: add --login", "--token-file"
        )


def refuse(context: typer.Context, why: str, *options: str) -> None:
    """Raises ConfigError for any of `options` that was given on the command line."""
    refused = [option for option in options if _was_given(context, option)]
    if refused:
        raise ConfigError(f"{', '.join(refused)} {why}")


def _was_given(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(_name(context, option))
    return source is not None and source.name == "COMMANDLINE"


def _is_asked(context: typer.Context, wanted: str) -> bool:
    option, _, value = wanted.partition(" ")
    if value:
        return str(context.params[_name(context, option)]) == value
    return _was_given(context, option) and context.params[_name(context, option)] != ""  # empty: none


def _name(context: typer.Context, option: str) -> str:
    """The parameter of an option."""
    return next(parameter.name or "" for parameter in context.command.params if option in parameter.opts)


def check_typed(command: Any, context: Any, args: list[str]) -> None:
    """Raises BadParameter for a number that is not finite or that nothing counts up to, and for an empty
    value where one is needed.

    An empty path would be the current folder. The default of an option may be typed whatever it is.
    """
    typed, _, _ = command.make_parser(context).parse_args(args=list(args))
    kinds = get_type_hints(command.callback) if command.callback else {}
    for parameter in command.params:
        value, kind = typed.get(parameter.name), kinds.get(parameter.name)
        for word in value if isinstance(value, (list, tuple)) else [value]:
            why = _refusal(parameter, kind, word) if isinstance(word, str) else ""
            if why:
                raise typer.BadParameter(why, ctx=context, param=parameter)


def _refusal(parameter: Any, kind: Any, word: str) -> str:
    """Why a word is no value of a parameter; empty where it may be one."""
    if word == "" and (_has(kind, Path) or _must_be_named(parameter, kind)):
        return "it is empty: " + ("give a path" if _has(kind, Path) else "give a value, or leave it out")
    if _has(kind, float) and not _is_finite(word) and word != str(parameter.default):
        return f"{word} is no finite number: give another"
    if _has(kind, int) and not _is_countable(word):
        return "it is too large: give a smaller number"
    return ""


def _must_be_named(parameter: Any, kind: Any) -> bool:
    """Whether a text is checked when it is given, as the name of a model is, and is not empty by default."""
    return _has(kind, str) and parameter.callback is not None and parameter.default != ""


def _has(kind: Any, wanted: type) -> bool:
    """Whether a type is the wanted one, or made of it."""
    return kind is wanted or any(_has(argument, wanted) for argument in get_args(kind))


def _is_countable(word: str) -> bool:
    try:
        return abs(int(word)) <= sys.maxsize
    except ValueError:  # the error for what is no number comes later
        return True


def _is_finite(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:  # the error for what is no number comes later
        return True
