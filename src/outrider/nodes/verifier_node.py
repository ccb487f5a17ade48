"""The verifier as a ROS node: the same server as `outrider verifier`, with lifecycle and diagnostics."""

from __future__ import annotations

import threading
from pathlib import Path

from outrider.core.ports import LanguageModel
from outrider.decoding.cloud import CloudLimits
from outrider.nodes.base import OutriderNode, run_node
from outrider.runtime.knowledge import Knowledge, open_knowledge
from outrider.runtime.paths import model_folder
from outrider.runtime.verifier import Verifier, check_binding


class VerifierNode(OutriderNode):
    """Loads the target when configured, serves it from a thread while active."""

    spec_name = "verifier"

    def configure(self) -> None:
        from outrider.models import constrain, load_model  # seconds to import

        check_binding(self.value("endpoint"), self._key_file())
        folder = model_folder(self.value("model"))
        model = load_model(
            folder,
            role="target",
            threads=self.value("threads"),
            precision=self.value("precision"),
            max_length=self.value("max_length"),
            device=self.value("device"),
            sessions=CloudLimits().max_sessions,
        )
        self._model: LanguageModel = constrain(model) if self.value("constrained") else model
        self._knowledge: Knowledge | None = None
        if self.value("corpus"):
            self._knowledge = open_knowledge(
                self.value("corpus"), self.value("answer_model"), self.value("threads")
            )
        self._server: threading.Thread | None = None

    def cleanup(self) -> None:
        knowledge = getattr(self, "_knowledge", None)
        if knowledge is not None:
            knowledge.corpus.close()
            self._knowledge = None

    def activate(self) -> None:
        self._verifier = Verifier(
            self._model,
            self.value("endpoint"),
            CloudLimits().on(self.value("device")),
            self._key_file(),
            self._knowledge,
        )
        self._stop = threading.Event()
        self._server = threading.Thread(
            target=self._verifier.serve, args=(self._stop,), name="verifier", daemon=True
        )
        self._server.start()
        self.get_logger().info(
            f"serving {self._model.name} at {self.value('endpoint')}{self._knowledge or ''}"
        )

    def _key_file(self) -> Path | None:
        return Path(self.value("key_file")) if self.value("key_file") else None

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
        values: dict[str, object] = {"endpoint": self.value("endpoint"), "model": self._model.name}
        return "", values | self._verifier.figures()


def main() -> int:
    return run_node(VerifierNode)


if __name__ == "__main__":
    raise SystemExit(main())
