# SPDX-License-Identifier: Apache-2.0
"""The verifier as a ROS node: the same server as `outrider verifier`, with lifecycle and diagnostics."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from outrider.core.ports import LanguageModel
from outrider.decoding.protocol.limits import CloudLimits
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.runtime.common.cloud_drafts import check_cloud_draft, load_cloud_drafts
from outrider.runtime.common.descriptors import have_descriptors
from outrider.runtime.common.paths import model_folder
from outrider.runtime.wiring.binding import check_binding
from outrider.runtime.wiring.knowledge import Knowledge, open_knowledge
from outrider.runtime.wiring.metrics import metrics_page, only
from outrider.runtime.wiring.verifier import open_verifier


class VerifierNode(OutriderNode):
    """Loads the target model in `configure`, and serves it from a thread while active."""

    spec_name = "verifier"

    def configure(self) -> None:
        from outrider.models import constrain, load_model  # takes seconds to import

        check_binding(self.value("endpoint"), self._key_file(), self.value("metrics_port"))
        draft = self.value("draft_model"), self.value("draft_device")
        check_cloud_draft(*draft, self.value("constrained"))
        self._limits = CloudLimits(
            max_sessions=self.value("max_sessions"), tokens_per_s=self.value("tokens_per_s")
        ).on(self.value("device"))
        load = partial(
            load_model,
            threads=self.value("threads"),
            precision=self.value("precision"),
            max_length=self.value("max_length"),
            device=self.value("device"),
            sessions=self._limits.max_sessions,
        )
        folder = model_folder(self.value("model"))
        model = load(folder, role="target")
        self._drafts = load_cloud_drafts(*draft, model, folder, load)
        self._model: LanguageModel = constrain(model) if self.value("constrained") else model
        self._knowledge: Knowledge | None = None
        if self.value("corpus"):
            self._knowledge = open_knowledge(
                self.value("corpus"), self.value("answer_model"), self.value("threads")
            )
        self._server: threading.Thread | None = None
        self._ending = ExitStack()

    def cleanup(self) -> None:
        knowledge = getattr(self, "_knowledge", None)
        if knowledge is not None:
            knowledge.corpus.close()
            self._knowledge = None

    def activate(self) -> None:
        have_descriptors()
        self._verifier = open_verifier(
            self._model,
            self.value("endpoint"),
            self._limits,
            self._key_file(),
            self._knowledge,
            self._drafts,
        )
        self._stop = threading.Event()
        self._server = threading.Thread(
            target=self._verifier.serve, args=(self._stop,), name="verifier", daemon=True
        )
        with ExitStack() as ending:
            self._server.start()
            ending.callback(self._server.join)
            ending.callback(self._stop.set)
            page = metrics_page(
                only(self._verifier.figures), self._limits.max_sessions, self.value("metrics_port")
            )
            ending.enter_context(page)
            self._ending = ending.pop_all()
        self.get_logger().info(
            f"serving {self._model.name} at {self.value('endpoint')}{self._drafts}{self._knowledge or ''}"
        )

    def _key_file(self) -> Path | None:
        return Path(self.value("key_file")) if self.value("key_file") else None

    def deactivate(self) -> None:
        if getattr(self, "_server", None) is not None:
            self._ending.close()
            self._server = None

    def health(self) -> tuple[str, dict[str, object]]:
        server = getattr(self, "_server", None)
        if server is None or not server.is_alive():
            return "not serving", {}
        values: dict[str, object] = {"endpoint": self.value("endpoint"), "model": self._model.name}
        return "", values | self._verifier.figures()


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(VerifierNode)


if __name__ == "__main__":
    raise SystemExit(main())
