# SPDX-License-Identifier: Apache-2.0
"""`outrider mcp`: lets agents use a running console, or one of a simulated robot in this process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from outrider.console.access import DEFAULT_TOKEN_FILE, is_loopback, load_token, read_token
from outrider.console.agents.address import ConsoleAddress, check_name
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.notes import Note
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import ConfigError
from outrider.core.files.certificate import certificate_hint
from outrider.core.files.given_file import in_home
from outrider.core.files.journal import Journal
from outrider.core.files.journal_files import journal_at
from outrider.core.files.notary import Notary
from outrider.core.files.terminal import loading
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import brief
from outrider.runtime.common.ending_signals import interrupted_by_signals
from outrider.runtime.common.paths import models_folder
from outrider.runtime.common.thinned_log import ThinnedHandler
from outrider.runtime.mission.words import vocabulary_of, words_text

AGENTS_TOKEN_FILE = DEFAULT_TOKEN_FILE.with_name("agents.token")


@dataclass(frozen=True)
class AgentOptions:
    """The command line's options. `token_file` is the console's; `model` is the robot's draft model."""

    console: str
    token_file: str = ""
    model: str = "models/draft"
    name: str = "mcp"
    private: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigError for a bad name."""
        check_name(self.name)


def serve_agents(
    options: AgentOptions, world: Mapping[str, Any] | None, http: Mapping[str, Any] | None
) -> None:
    """Serve until the agent closes the pipe or a signal ends it; with `http`, until a signal.

    `http` holds fields of ConsoleSettings. With `world`, the simulation's parameters, the robot is a
    simulated one. Raises ConfigError for a bad option or a missing package, OutriderError if the simulation
    fails.
    """
    at = _address(http) if http is not None else None
    vocabulary = vocabulary_of(options.model)
    logging.basicConfig(level=logging.ERROR, handlers=[ThinnedHandler()])
    try:
        from outrider.console.agents.serving import serve_http, serve_pipe  # slow to import
    except ImportError as error:
        raise ConfigError(f"agents need the package mcp ({error}): pip install 'outrider[mcp]'") from None
    notary = Notary(Journal(journal_at()), "agents", brief)
    with (
        interrupted_by_signals(),
        closing(notary),
        _console(options, world, vocabulary, notary.note) as url,
    ):
        settings = _settings(options, url, vocabulary)
        with suppress(KeyboardInterrupt):
            if at is None:
                serve_pipe(settings, notary.note)
                return
            token = load_token(at.token_path)
            serve_http(settings, notary.note, at, token, lambda port: _print_endpoint(at, port))


def _address(http: Mapping[str, Any]) -> ConsoleSettings:
    """Returns the checked settings of the HTTP server. A simulation, which is slow to build, comes later."""
    from outrider.runtime.wiring.binding import check_server  # slow to import

    at = ConsoleSettings(**{**http, "token_file": http["token_file"] or str(AGENTS_TOKEN_FILE)})
    check_server(at)
    return at


@contextmanager
def _console(
    options: AgentOptions, world: Mapping[str, Any] | None, vocabulary: Vocabulary | None, note: Note
) -> Iterator[str]:
    """Yields the console's address: the given one, or that of a simulated robot's in this process."""
    if world is None:
        yield options.console
        return
    with loading("both models and the simulation"):
        from outrider.runtime.no_ros.simulated_robot import SimulatedRobot  # slow to import, as the others
        from outrider.runtime.node_graph.simulation_specs import SIMULATION
        from outrider.voice.speaking import SpeakingProgram

        simulated = SimulatedRobot(SIMULATION.checked(world), models_folder(), vocabulary)
    with (
        closing(simulated) as robot,
        closing(ConsoleServer(robot, ConsoleSettings(port=0), note, voice=SpeakingProgram())) as server,
    ):
        robot.show_on(server)
        print(f"watch and stop it at {server.url}", file=sys.stderr, flush=True)
        yield server.url


def _settings(options: AgentOptions, url: str, vocabulary: Vocabulary | None) -> AgentSettings:
    token = read_token(in_home(options.token_file)) if options.token_file else ""
    return AgentSettings(
        ConsoleAddress(url, token),
        Envelope(vocabulary, options.private),
        words_text(options.model, vocabulary),
        options.name,
    )


def _print_endpoint(at: ConsoleSettings, port: int) -> None:
    encrypted = at.tls_cert or is_loopback(at.host)
    plain = "" if encrypted else "; it goes over the network unencrypted without --tls-cert"
    where = f"{at.url_at(port)}mcp"
    print(
        f"agents at {where}, the token is in {at.token_path}{plain}{certificate_hint(at.tls_cert)}",
        file=sys.stderr,
        flush=True,
    )
