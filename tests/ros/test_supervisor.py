"""The processes of a demo are started, watched, replaced, and all ended. With tiny random models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import own_domain, wait_until

from outrider.core.errors import ConfigError, InstructionError, OutriderError
from outrider.runtime.common.ports import check_endpoint_free, free_port
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH, wanted_nodes
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameter_values import graph_parameters, write_parameter_file
from outrider.runtime.processes import supervisor as supervision
from outrider.runtime.processes.demo import run_demo
from outrider.runtime.processes.ros_env import ros_environment
from outrider.runtime.processes.supervisor import Supervisor
from outrider.runtime.wiring.probe import probe_verifier

pytestmark = [pytest.mark.ros, pytest.mark.xdist_group("graph")]
DEMO = """
import sys
from pathlib import Path
from outrider.runtime.processes.demo import run_demo
out, models, strategy = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.exit(run_demo("find the silver bottle", out=out, models=models, strategy=strategy, seed=3))
"""


def start_demo(out: Path, models: Path, strategy: str = "outrider") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DEMO, str(out), str(models), strategy]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def node_processes(out: Path) -> list[int]:
    """Returns the processes that were started with this run's parameter file."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(out / "logs" / "parameters.yaml") in command:
                found.append(int(folder.name))
    return found


def test_a_whole_demo_leaves_its_report_and_no_process(tmp_path: Path, tiny_model_folder: Path) -> None:
    # The strategy `outrider` would not send random drafts: they are not worth their bytes.
    demo = start_demo(tmp_path, tiny_model_folder, strategy="sd")
    output, errors = demo.communicate(timeout=120)
    assert demo.returncode == 1, errors  # random models find nothing
    assert "FAILED" in output and "step   1" in output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["success"] is False and report["collisions"] == 0 and report["step_log"]
    assert report["seed"] == 3 and report["verdict"] == "failed" and report["checked"] is True
    assert report["rounds"] > 0 and report["bytes_up"] > 0 and "connected" in report["link_states"]
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == report["rounds"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("run.mp4", "trajectory.png"))
    stages = report["stages_s"]
    assert any(stage.endswith(" ready") for stage in stages)
    assert stages["goal given"] <= stages["verdict"] <= report["to_verdict_s"]
    assert node_processes(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT], ids=lambda n: n.name)
def test_an_interrupted_demo_ends_soon_and_leaves_no_process(
    number: signal.Signals, tmp_path: Path, tiny_model_folder: Path
) -> None:
    demo = start_demo(tmp_path, tiny_model_folder)
    wait_until(
        lambda: (
            len(node_processes(tmp_path)) == len(wanted_nodes(SIM_GRAPH, graph_parameters(SIM_GRAPH, {}, {})))
        ),
        "all nodes",
        timeout_s=60.0,
    )
    demo.send_signal(number)
    started_s = time.monotonic()
    demo.communicate(timeout=60)
    assert demo.returncode == 130 and time.monotonic() - started_s < 25.0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "failed" and report["outcome"] == "cancelled" and report["seed"] == 3
    assert node_processes(tmp_path) == []


def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path, tiny_model_folder: Path) -> None:
    demo = start_demo(tmp_path, tiny_model_folder)
    wanted = wanted_nodes(SIM_GRAPH, graph_parameters(SIM_GRAPH, {}, {}))
    wait_until(lambda: len(node_processes(tmp_path)) == len(wanted), "all nodes", timeout_s=60.0)
    demo.kill()
    demo.communicate()
    wait_until(lambda: not node_processes(tmp_path), "the end of its nodes", timeout_s=60.0)


def test_a_killed_verifier_is_started_again(tmp_path: Path, tiny_model_folder: Path) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    arguments = {"endpoint": endpoint, "model": str(tiny_model_folder / "target")}
    write_parameter_file(tmp_path / "p.yaml", graph_parameters(SIM_GRAPH, {}, arguments))
    stopping = threading.Event()
    with Supervisor(tmp_path, ros_environment(own_domain())) as supervisor:
        supervisor.start("verifier", tmp_path / "p.yaml")
        watcher = threading.Thread(target=supervisor.wait, args=("nobody", stopping), daemon=True)
        watcher.start()
        assert probe_verifier(endpoint, timeout_s=60.0).open_sessions == 0
        first = supervisor.pids()["verifier"]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: supervisor.pids()["verifier"] != first, "another verifier")
        assert probe_verifier(endpoint, timeout_s=60.0).open_sessions == 0
        stopping.set()
        watcher.join(5.0)


def test_a_node_that_cannot_start_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    parameters = graph_parameters(SIM_GRAPH, {}, {"model": str(tmp_path / "nowhere")})
    write_parameter_file(tmp_path / "p.yaml", parameters)
    with Supervisor(tmp_path, ros_environment(own_domain())) as supervisor:
        supervisor.start("verifier", tmp_path / "p.yaml")
        with pytest.raises(OutriderError, match="no model folder"):
            supervisor.wait("nobody", threading.Event())


def test_an_unknown_parameter_in_a_file_is_named_and_ends_the_node(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("action: {ros__parameters: {sped: 3.0}}\n")
    with Supervisor(tmp_path, ros_environment(own_domain())) as supervisor:
        supervisor.start("action", tmp_path / "p.yaml")
        with pytest.raises(OutriderError, match=r"exit status 2(.|\n)*unknown parameter sped"):
            supervisor.wait("nobody", threading.Event())


def test_bad_input_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InstructionError, match="empty"):
        run_demo("  ", out=tmp_path)
    for sentence in ("walk home to me", "red", "find me", "leave me"):
        with pytest.raises(InstructionError, match=r"outrider words|say what you stand by"):
            run_demo(sentence, out=tmp_path)
    with pytest.raises(ConfigError, match=r"no link 'telegraph'.*lte"):
        run_demo("find the silver bottle", out=tmp_path, link_profile="telegraph")
    with pytest.raises(ConfigError, match="strategy"):
        run_demo("find the red cup", out=tmp_path, strategy="magic")
    with pytest.raises(ConfigError, match="nowhere"):
        run_demo("find the red cup", out=tmp_path, models=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"cannot write .*file/report.json.*Not a directory"):
        run_demo("find the red cup", out=tmp_path / "file")


def test_a_port_in_use_is_named() -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            check_endpoint_free(f"tcp://127.0.0.1:{port}")
    check_endpoint_free(f"tcp://127.0.0.1:{port}")
    for endpoint in ("nonsense", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:port"):
        with pytest.raises(ConfigError, match="must read tcp://HOST:PORT"):
            check_endpoint_free(endpoint)
    check_endpoint_free("tcp://a..b:5757")  # not a valid name: the connection reports it


def test_a_process_without_a_model_does_not_load_torch() -> None:
    names = ("simulation", "camera", "action", "mission", "console", "record", "markers")
    trials = ("kills.kill_trials", "kills.hedged_trials", "kills.end_trials", "safety.trials")
    modules = [NODES[name].module for name in names] + [f"outrider.evaluation.{name}" for name in trials]
    code = "import sys, importlib\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    code += "    assert 'torch' not in sys.modules, name"
    process = subprocess.run(
        [sys.executable, "-c", code, *modules],
        env=ros_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr


def test_a_node_that_ignores_the_request_to_end_is_killed() -> None:
    stubborn = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", stubborn], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    supervision._end(process, 0.2)
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()
