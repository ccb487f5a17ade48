# SPDX-License-Identifier: Apache-2.0
"""`outrider bench console`: how much viewers slow decoding, and how soon a click on the stop takes effect.

The shipped pair decodes held-out frames over loopback sockets, alternately without viewers and with them. The
console's node and a camera run at the same time, as on a robot. Ratios are of times in one run.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from outrider.core.errors import ConfigError, LinkError
from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.ports import LanguageModel
from outrider.core.sensors.camera import SIM_CAMERA
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.robot.console_crowd import time_e_stops, time_silences
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.common.ports import free_port
from outrider.runtime.datasets.held_out import check_frames, held_out_prompts
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameter_values import write_parameter_file
from outrider.runtime.processes.ros_env import free_domain, ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.verifier_process import verifier_process

RUNNING_NODES = ("camera", "action", "console")
START_S = 60.0
CROWD_NICENESS = 19
TEXT_S = 60.0


@dataclass(frozen=True)
class ConsoleFigures:
    """Medians in milliseconds. `slowdown`: each block with viewers over the mean of its neighbours without.

    `processor`: the share of one core that the console's process takes with all viewers. `e_stop_ms`: from a
    click until the page shows that the robot stands. `silence_ms`: the same from the last message of a page
    that drives.
    """

    viewers: int
    pictures_per_s: float
    processor: float
    text_alone_ms: float
    text_watched_ms: float
    slowdown: float
    e_stop_ms: float
    e_stop_worst_ms: float
    silence_ms: float
    silence_worst_ms: float
    e_stops: int


def bench_console(
    viewers: int,
    blocks: int,
    frames: int,
    e_stops: int,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises ModelError without models, LinkError without a console."""
    check_frames(frames, seed)
    if blocks < 1 or viewers < 1:
        raise ConfigError("blocks and viewers must be at least 1")
    folder = models_folder(models)
    prompts = list(held_out_prompts(frames, seed))
    with _console(prompts[0]) as (url, pid), _decoder(folder) as decoder:
        _time_text(decoder, prompts)
        measured = _measure_blocks(decoder, prompts, url, pid, viewers, blocks)
        with _crowd(url, viewers):
            stops = asyncio.run(time_e_stops(url, e_stops))
            silences = asyncio.run(time_silences(url, e_stops))
    figures = asdict(_figures(viewers, measured, stops, silences))
    title = f"{viewers} viewers of the console"
    print_results(results_table(title, *LEGENDS["bench console"], rows=_rows(figures)))
    write_figures(json_file, figures)
    return figures


@dataclass
class _Blocks:
    """Times and rates of the blocks. Blocks without viewers alternate with blocks with them.

    `times`: the median seconds of a text in each block, first and last without viewers. `rates`: pictures per
    second of every viewer in every block. `shares`: the console's share of a core in each block with viewers.
    """

    times: list[float]
    rates: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def _measure_blocks(
    decoder: LinkedDecoder, prompts: Sequence[Prompt], url: str, pid: int, viewers: int, blocks: int
) -> _Blocks:
    measured = _Blocks([_time_text(decoder, prompts)])
    for _ in range(blocks):
        with _crowd(url, viewers) as received:
            started_s, before_s = time.monotonic(), processor_s(pid)
            measured.times.append(_time_text(decoder, prompts))
            measured.shares.append((processor_s(pid) - before_s) / (time.monotonic() - started_s))
        measured.rates += [viewer["pictures_per_s"] for viewer in received]
        measured.times.append(_time_text(decoder, prompts))
    return measured


def processor_s(pid: int) -> float:
    """Returns the processor time in seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _time_text(decoder: LinkedDecoder, prompts: Sequence[Prompt]) -> float:
    texts = [decoder.decode(DecodeRequest(prompt, deadline_s=TEXT_S)) for prompt in prompts]
    return statistics.median(text.elapsed_s for text in texts)


def _figures(
    viewers: int, measured: _Blocks, stops: Sequence[float], silences: Sequence[float]
) -> ConsoleFigures:
    times = measured.times
    ratios = [times[i] / statistics.mean((times[i - 1], times[i + 1])) for i in range(1, len(times), 2)]
    return ConsoleFigures(
        viewers=viewers,
        pictures_per_s=statistics.median(measured.rates),
        processor=statistics.median(measured.shares),
        text_alone_ms=statistics.median(times[::2]) * 1e3,
        text_watched_ms=statistics.median(times[1::2]) * 1e3,
        slowdown=statistics.median(ratios),
        e_stop_ms=statistics.median(stops) * 1e3,
        e_stop_worst_ms=max(stops) * 1e3,
        silence_ms=statistics.median(silences) * 1e3,
        silence_worst_ms=max(silences) * 1e3,
        e_stops=len(stops),
    )


@contextmanager
def _decoder(models: Path) -> Iterator[LinkedDecoder]:
    """Yields a decoder of the shipped pair, with the target in another process."""
    from outrider.models import load_model  # seconds to import

    draft = load_model(models / "draft", role="draft", sessions=DRAFT_BRANCHES)
    with verifier_process(_target_service, models / "target") as endpoint:
        decoder = connect_decoder(endpoint, draft, DecodingConfig())
        yield decoder
        decoder.close()


def _target_service(folder: Path) -> VerifierService:
    """Load the target; runs in the verifier's process."""
    from outrider.models import load_model

    model: LanguageModel = load_model(folder, role="target")
    return VerifierService(model)


@contextmanager
def _console(prompt: Prompt) -> Iterator[tuple[str, int]]:
    """Run camera, action node and console; yields the console's address and process id.

    The camera shows one frame.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="outrider-") as name:
        folder = Path(name)
        parameters: dict[str, dict[str, Any]] = {
            "camera": {"source": "file", "path": str(_picture(prompt, folder))},
            "action": {"use_scan": False},
            "console": {"port": port},
        }
        write_parameter_file(
            folder / "parameters.yaml",
            {node: NODES[node].checked(parameters[node]) for node in RUNNING_NODES},
        )
        with Supervisor(folder, ros_environment(free_domain())) as supervisor:
            for node in RUNNING_NODES:
                supervisor.start(node, folder / "parameters.yaml")
            url = f"http://127.0.0.1:{port}/"
            _await_pictures(url)
            yield url, supervisor.pids()["console"]


def _picture(prompt: Prompt, folder: Path) -> Path:
    """Write a frame at the camera's size to a file; returns its path."""
    small = cv2.imdecode(np.frombuffer(prompt.jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert small is not None, "the prompts' frames are JPEGs"
    path = folder / "frame.png"
    cv2.imwrite(str(path), cv2.resize(small, (SIM_CAMERA.width, SIM_CAMERA.height)))
    return path


def _await_pictures(url: str) -> None:
    deadline_s = time.monotonic() + START_S
    while True:
        try:
            with _crowd(url, 1):
                return
        except LinkError:
            if time.monotonic() > deadline_s:
                raise


@contextmanager
def _crowd(url: str, viewers: int) -> Iterator[list[Mapping[str, float]]]:
    """Run viewers in another process, at the lowest priority: a robot's viewers run on other machines.

    At the end the yielded list is filled with what each received.
    """
    received: list[Mapping[str, float]] = []
    command = [sys.executable, "-m", "outrider.evaluation.robot.console_crowd", url, str(viewers)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: os.nice(CROWD_NICENESS),
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "watching":
            raise LinkError(f"the viewers of {url} get no picture: is the console running?")
        yield received
        received += json.loads(process.communicate()[0])
    finally:
        process.kill()
        process.wait()


def _rows(figures: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    return (
        ("pictures a second, each viewer", f"{figures['pictures_per_s']:.1f}"),
        ("the console's share of one core", f"{figures['processor']:.3f}"),
        ("a text, nobody watching", f"{figures['text_alone_ms']:.1f} ms"),
        ("a text, watched", f"{figures['text_watched_ms']:.1f} ms"),
        ("watched over alone", f"{figures['slowdown']:.3f}"),
        ("click on the stop to standing", _span(figures, "e_stop")),
        ("silence of the driving page to standing", _span(figures, "silence")),
    )


def _span(figures: Mapping[str, Any], name: str) -> str:
    worst = f"worst of {figures['e_stops']}: {figures[f'{name}_worst_ms']:.0f} ms"
    return f"{figures[f'{name}_ms']:.0f} ms, {worst}"
