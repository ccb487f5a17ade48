"""Serves a console in a process with few file descriptors. Prints its port, then a line for each stop."""

from __future__ import annotations

import json
import resource
import sys
import time

from support.consoles import FakeRobot

from outrider.console.server import ConsoleServer, ConsoleSettings


class PrintingRobot(FakeRobot):
    def set_e_stop(self, engaged: bool) -> bool:
        print("stop", flush=True)
        return True


def main() -> None:
    max_files, settings = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    server = ConsoleServer(PrintingRobot(), ConsoleSettings(port=0, **settings))
    print(server.port, flush=True)
    while True:
        server.show_picture(bytes(200_000))
        time.sleep(0.05)


if __name__ == "__main__":
    main()
