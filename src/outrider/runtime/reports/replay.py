# SPDX-License-Identifier: Apache-2.0
"""`outrider replay`: decodes a recorded run again, without a robot, and compares the verified texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.core.files.terminal import loading, make_console, print_rows, printable, tracked
from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded
from outrider.decoding.config import DecodingConfig
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.reports.recording import RecordedStep, num_missing, read_steps
from outrider.runtime.wiring.probe import probe_verifier

if TYPE_CHECKING:
    from outrider.decoding.drivers.verifier_service import VerifierService

SHOWN = 10


@dataclass(frozen=True)
class Comparison:
    """A step's recorded text and its replay. An unfinished one agrees if it is a beginning of the replay."""

    step: int
    recorded: str
    replayed: str
    agrees: bool


def compare(step: RecordedStep, decoded: Decoded) -> Comparison:
    """Returns a comparison of the words and the number of tokens."""
    if step.finished:
        agrees = (decoded.text, len(decoded.token_ids)) == (step.text, step.verified_tokens)
    else:
        agrees = decoded.text.startswith(step.text) and step.verified_tokens <= len(decoded.token_ids)
    return Comparison(step.step, step.text, decoded.text, agrees)


def replay_steps(steps: Sequence[RecordedStep], decoder: TextDecoder) -> Iterator[tuple[Comparison, Decoded]]:
    """Yields the replays of the steps with a recorded text, in order.

    Steps of which the robot wrote a part without the verifier are left out.
    """
    for step in steps:
        if step.has_text and not step.alone:
            decoded = decoder.decode(step.request)
            yield compare(step, decoded), decoded


def replay(
    file: Path,
    config: DecodingConfig,
    endpoint: str | None,
    link_profile: str | None,
    models: Path | None = None,
    json_file: Path | None = None,
    key_file: Path | None = None,
) -> dict[str, Any]:
    """Decode, print, and write JSON; returns the figures. Without an `endpoint` it starts a verifier.

    Raises ConfigError for a file that is no recording, LinkError if the verifier does not answer.
    """
    steps = read_steps(file)
    folder = models_folder(models)
    with ExitStack() as opened:
        with loading(f"the models of {folder}"):
            from outrider.runtime.wiring.robot_pair import EdgeSettings, open_edge  # takes seconds to import

            where = opened.enter_context(_verifier(endpoint, folder, key_file))
            keys = str(key_file) if endpoint is not None and key_file is not None else ""
            settings = EdgeSettings(
                where, str(folder / "draft"), config, key_file=keys, link_profile=link_profile or ""
            )
            decoder = open_edge(settings).decoder
        opened.callback(decoder.close)
        pairs = list(tracked(replay_steps(steps, decoder), "steps", len(steps)))
    figures = figures_of(steps, pairs)
    _show(figures, [comparison for comparison, _ in pairs if not comparison.agrees])
    write_figures(json_file, {"file": str(file), "strategy": config.strategy, **figures})
    return figures


def figures_of(steps: Sequence[RecordedStep], pairs: Sequence[tuple[Comparison, Decoded]]) -> dict[str, Any]:
    """Returns the counts and the speed of the replay."""
    tokens = sum(len(decoded.token_ids) for _, decoded in pairs)
    elapsed_s = sum(decoded.elapsed_s for _, decoded in pairs)
    return {
        "steps": len(steps),
        "missing": num_missing(steps),
        "compared": len(pairs),
        "agree": sum(comparison.agrees for comparison, _ in pairs),
        "without_verifier": sum(step.alone for step in steps),
        "without_text": sum(not step.has_text and not step.alone for step in steps),
        "unfinished": sum(step.has_text and not step.finished and not step.alone for step in steps),
        "tokens": tokens,
        "tokens_per_s": tokens / elapsed_s if elapsed_s > 0.0 else 0.0,
        "target_passes": sum(decoded.target_passes for _, decoded in pairs),
        "differences": [asdict(comparison) for comparison, _ in pairs if not comparison.agrees],
    }


@contextmanager
def _verifier(endpoint: str | None, folder: Path, key_file: Path | None) -> Iterator[str]:
    if endpoint is not None:
        probe_verifier(endpoint, key_file=key_file)
        yield endpoint
        return
    from outrider.runtime.wiring.verifier_process import verifier_process

    with verifier_process(_target_service, folder / "target") as where:
        yield where


def _target_service(folder: Path) -> VerifierService:
    from outrider.decoding.drivers.verifier_service import VerifierService
    from outrider.models import load_model

    return VerifierService(load_model(folder, role="target"))


def _show(figures: dict[str, Any], differences: Sequence[Comparison]) -> None:
    console = make_console()
    console.print(
        f"{figures['compared']} of {figures['steps'] + figures['missing']} steps replayed; "
        f"{figures['agree']} of {figures['compared']} texts agree with the recorded ones; "
        f"{figures['tokens']} tokens at {figures['tokens_per_s']:.0f} tokens/s, "
        f"{figures['target_passes']} passes of the target"
    )
    if figures["unfinished"]:
        console.print(
            f"{figures['unfinished']} texts end where the robot had read enough: compared as far as they go"
        )
    if figures["without_verifier"]:
        console.print(f"{figures['without_verifier']} more steps were written without the verifier")
    if figures["without_text"]:
        console.print(f"{figures['without_text']} more steps have no text in the recording to compare with")
    if figures["missing"]:
        console.print(f"{figures['missing']} steps of the run are not in the recording")
    if differences:
        rows = [
            (str(difference.step), printable(difference.recorded), printable(difference.replayed))
            for difference in differences[:SHOWN]
        ]
        print_rows(console, ("step", "recorded", "replayed"), rows)
