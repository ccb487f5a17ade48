"""The verifier as a ROS node: the same server as `outrider verifier`, with lifecycle and diagnostics."""

from __future__ import annotations

import threading
from pathlib import Path

from outrider.core.errors import OutriderError
from outrider.core.ports import LanguageModel
from outrider.nodes.base import OutriderNode, run_node
from outrider.runtime.decoders import serve_verifier
from outrider.runtime.paths import model_folder

START_TIMEOUT_S = 30.0


class VerifierNode(OutriderNode):
    """Loads the target when configured, serves it from a thread while active."""

    spec_name = "verifier"

    def configure(self) -> None:
        from outrider.models import load_model  # seconds to import

        folder = model_folder(self.value("model"))
        self._model: LanguageModel = load_model(folder, role="target", threads=self.value("threads"))
        self._server: threading.Thread | None = None

    def activate(self) -> None:
        self._stop, self._ready = threading.Event(), threading.Event()
        self._error: OutriderError | None = None
        self._server = threading.Thread(target=self._serve, name="verifier", daemon=True)
        self._server.start()
        self._ready.wait(START_TIMEOUT_S)
        if self._error is not None:
            raise self._error
        self.get_logger().info(f"serving {self._model.name} at {self.value('endpoint')}")

    def deactivate(self) -> None:
        server = getattr(self, "_server", None)
        if server is not None:
            self._stop.set()
            server.join()
            self._server = None

    def health(self) -> tuple[str, dict[str, object]]:
        server = getattr(self, "_server", None)
        if server is None or not server.is_alive():
            return "not serving", {}
        return "", {"endpoint": self.value("endpoint"), "model": self._model.name}

    def _serve(self) -> None:
        try:
            key_file = Path(self.value("key_file")) if self.value("key_file") else None
            serve_verifier(
                self._model,
                self.value("endpoint"),
                stop=self._stop,
                key_file=key_file,
                on_ready=self._ready.set,
            )
        except OutriderError as error:
            self._error = error
        finally:
            self._ready.set()


def main() -> int:
    return run_node(VerifierNode)


if __name__ == "__main__":
    raise SystemExit(main())
