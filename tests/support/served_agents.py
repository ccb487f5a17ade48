"""Serves agents over HTTP, with their console, in a process with few file descriptors. Prints both ports."""

from __future__ import annotations

import json
import resource
import sys

from support.consoles import FakeRobot

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.serving import serve_http
from outrider.console.notes import note_nothing
from outrider.console.server import ConsoleServer, ConsoleSettings


def main() -> None:
    max_files, token, settings = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    console = ConsoleServer(FakeRobot(), ConsoleSettings(port=0))
    agents = AgentSettings(ConsoleAddress(console.url), Envelope(None), "say: turn left")
    at = ConsoleSettings(port=0, **settings)
    serve_http(agents, note_nothing, at, token, lambda port: print(port, console.port, flush=True))


if __name__ == "__main__":
    main()
