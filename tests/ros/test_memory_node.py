"""The memory node: its services, the sightings it stores, and the store it shares with the navigator."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from fakes import FEW_PICTURES, SLOW_CAMERA, ScriptedDecoder
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import VerifiedText
from outrider_interfaces.srv import Forget, Recall, Remember
from support.memories import another_reader
from support_ros import EdgeNavigator, Goals, PatientAction, result_of

from outrider.core.errors import OutriderError
from outrider.core.language.grammar import Vocabulary
from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.memory.store.store import MemoryStore
from outrider.nodes.common import convert, qos
from outrider.nodes.navigator.memory_node import MemoryNode
from outrider.nodes.navigator.verifier_node import VerifierNode
from outrider.nodes.simulation.simulation_node import SimulationNode
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring import memory_stores
from outrider.runtime.wiring.corpora import opened_corpus
from outrider.runtime.wiring.memory_stores import open_memory
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros
HOME = "flat"


class Services:
    """Calls the node's services from the test's thread."""

    def __init__(self, client: Client) -> None:
        self._clients = {
            kind: client.node.create_client(kind, name)
            for kind, name in ((Remember, "remember"), (Recall, "recall"), (Forget, "forget"))
        }

    def call(self, kind: Any, **fields: Any) -> Any:
        service = self._clients[kind]
        wait_until(service.service_is_ready, "the service")
        return result_of(service.call_async(kind.Request(**fields)))


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


def test_remember_recall_and_forget(run_node: Callable[..., NodeThread], client: Client, store: str) -> None:
    node = run_node(lambda: MemoryNode({"memory_store": store, "home": HOME})).node
    services = Services(client)
    told = services.call(Remember, text="my keys hang by the door")
    shared = services.call(
        Remember, text="the spare tyre is here", shareable=True, has_place=True, x=1.0, y=2.0
    )
    assert told.success and shared.success and "private" in told.message
    (best,) = services.call(Recall, query="where are my keys?", limit=1).records
    assert (best.id, best.kind, best.visibility) == (told.id, "told", "private") and not best.has_place
    near = services.call(Recall, query="tyre", has_place=True, x=1.5, y=2.0, radius_m=1.0).records
    assert [(r.id, r.x, r.home) for r in near] == [(shared.id, 1.0, HOME)] and near[0].similarity > 0.3
    only = services.call(Recall, query="keys", shareable_only=True, within_s=60.0).records
    assert [r.id for r in only] == [shared.id]
    refused = services.call(Remember, text=" ")
    assert not refused.success and "empty" in refused.message
    assert not services.call(Forget).success
    assert services.call(Forget, matching="keys").forgotten == 1
    assert services.call(Forget, everything=True).forgotten == 1
    assert node.health() == ("", {"records": 0, "mb": pytest.approx(0.2, abs=0.2), "home": HOME})


def test_the_services_say_what_was_matched_and_what_is_not_erased_yet(
    run_node: Callable[..., NodeThread], client: Client, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_stores, "MemoryStore", partial(MemoryStore, forget_wait_ms=200))
    run_node(lambda: MemoryNode({"memory_store": store}))
    services = Services(client)
    long = "We walked in the park and read the news on the balcony. " * 20 + "The pump hangs by the stairs."
    told = services.call(Remember, text=long)
    found = services.call(Recall, query="where is the pump?", limit=1)
    assert found.records[0].text == long
    assert found.message.startswith(f"{told.id} by: ") and found.message.endswith("by the stairs.")
    assert len(found.message) < len(long) / 2
    with another_reader(Path(store)):
        kept = services.call(Forget, ids=[told.id])
        assert not kept.success and kept.forgotten == 1 and "another process reads" in kept.message
    files = [Path(f"{store}{suffix}") for suffix in ("", "-wal", "-shm")]
    wait_until(lambda: not any(b"The pump hangs" in file.read_bytes() for file in files), "the erasing")


def test_verified_texts_and_odometry_become_sightings(
    run_node: Callable[..., NodeThread], client: Client, store: str
) -> None:
    node = run_node(lambda: MemoryNode({"memory_store": store, "home": HOME})).node

    def stand_at(x: float) -> None:
        """Publishes odometry at `x` metres, stamped `x` seconds, and waits until the node has it."""
        odometry = Odometry(Pose2D(x, 0.0, 0.0), Velocity(), 0.0)
        client.publish(convert.odometry_message(odometry, convert.time_of(x)), "odom", qos.SENSOR)
        wait_until(lambda: node._pose is not None and node._pose.x == x, "the odometry")

    def say(state: int, text: str, step: int = 1, link: str = "connected") -> None:
        message = VerifiedText(session_id="s", step=step, state=state, text=text, link_state=link)
        client.publish(message, "verified_text", qos.EVENTS)

    stand_at(1.0)
    say(VerifiedText.DECODING, "move forward large\n")
    wait_until(lambda: node._observer._pose is not None, "the first words")
    stand_at(1.5)  # the robot moves while the reason is still being verified
    say(
        VerifiedText.FINISHED,
        "move forward large\napproach: red ball ahead at 3.0 m; blue cup left 90 at 2.0 m.",
    )
    with open_memory(store) as memory:
        wait_until(lambda: memory.count() == 2, "the sightings")
        (ball,) = memory.sightings("red ball", HOME)
        assert (ball.x, ball.y) == pytest.approx((4.0, 0.0))
        say(VerifiedText.FINISHED, "move forward large\napproach: red ball ahead at 3.0 m.")
        say(VerifiedText.FINISHED, "stop\napproach: green vase ahead at 3.0 m.", step=2, link="local")
        wait_until(lambda: node._observer._alone, "what the draft model wrote alone")
        assert memory.count() == 2


def test_a_sighting_is_placed_from_where_its_picture_was_taken(
    run_node: Callable[..., NodeThread], client: Client, store: str
) -> None:
    """Under load a text arrives long after its picture, when the robot has moved or turned."""
    node = run_node(lambda: MemoryNode({"memory_store": store, "home": HOME})).node
    stamps = []
    for tick in range(60):
        pose = Pose2D(1.0 + 0.01 * tick, 0.0, 0.0)
        stamps.append(client.node.get_clock().now().to_msg())
        client.publish(
            convert.odometry_message(Odometry(pose, Velocity(), 0.0), stamps[-1]), "odom", qos.SENSOR
        )
        time.sleep(0.02)  # half a metre a second
    wait_until(lambda: node._pose == pose, "the odometry")
    text = VerifiedText(
        session_id="s", step=1, state=VerifiedText.FINISHED, text="stop\napproach: red ball ahead at 3.0 m."
    )
    text.header.stamp = stamps[20]
    client.publish(text, "verified_text", qos.EVENTS)
    with open_memory(store) as memory:
        wait_until(lambda: memory.count() == 1, "the sighting")
        (ball,) = memory.sightings("red ball", HOME)
    assert ball.x == pytest.approx(4.2, abs=0.06)  # by now the robot stands at 1.59


def test_a_store_that_cannot_be_opened_ends_the_start_with_the_reason(
    run_node: Callable[..., NodeThread], tmp_path: Path
) -> None:
    (tmp_path / "store").write_text("no database" * 100)
    with pytest.raises(OutriderError, match="no store of memories"):
        run_node(lambda: MemoryNode({"memory_store": str(tmp_path / "store")}))


def test_what_is_told_to_the_navigator_is_remembered_answered_and_gone_for(
    run_node: Callable[..., NodeThread], client: Client, store: str
) -> None:
    """The place is the robot's own when it is told. The later search does not prompt the models."""
    decoder = ScriptedDecoder(["turn left large\nobey: x", *["move forward large\nobey: x"] * 3])
    edge = Edge(decoder, Vocabulary({}))

    options = {"seed": 3, "placement": "in_view", "odometry_noise": 0.0}
    memory = {"memory_store": store, "home": HOME}
    simulation = run_node(lambda: SimulationNode({**options, **FEW_PICTURES}))
    run_node(PatientAction)
    run_node(lambda: MemoryNode(memory))
    run_node(lambda: EdgeNavigator({**memory, **SLOW_CAMERA}, edge), threads=4)
    goals, services = Goals(client), Services(client)
    odometry = client.listen(OdometryMsg, "odom", qos.SENSOR)
    wait_until(lambda: odometry, "the simulation")
    wait_until(lambda: client.node.count_subscribers("verified_text") >= 2, "action and memory")

    def say(sentence: str) -> Any:
        return goals.result(goals.send(sentence))

    there = simulation.node.simulator.truth()
    told = say("remember that my keys are here")
    assert told.success and "here" in told.message and told.steps == 0
    assert services.call(Recall, query="keys").records[0].text == "my keys are here"
    assert say("turn left at the door").success
    assert simulation.node.simulator.truth().distance_to(there.x, there.y) > 1.2
    asked = len(decoder.prompts)
    found = say("find my keys")
    assert found.success, found.message
    assert simulation.node.simulator.truth().distance_to(there.x, there.y) < 1.0
    assert len(decoder.prompts) == asked
    assert "my keys are here" in say("where did you last see my keys?").message
    assert say("find my wallet").error_code == Navigate.Result.BAD_INSTRUCTION


def test_a_question_is_answered_by_robot_and_cloud_together(
    run_node: Callable[..., NodeThread], client: Client, store: str, tmp_path: Path, tiny_model_folder: Path
) -> None:
    edge = Edge(ScriptedDecoder([]), Vocabulary({}))
    corpus = tmp_path / "corpus.db"
    with opened_corpus(str(corpus), may_make=True) as opened:
        opened.add(["Keys are cut at the kiosk."])
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    cloud = {"endpoint": endpoint, "model": str(tiny_model_folder / "target"), "corpus": str(corpus)}
    robot = {"endpoint": endpoint, "answers": "aggregate", "memory_store": store, "home": HOME}
    run_node(lambda: VerifierNode(cloud))
    run_node(lambda: EdgeNavigator({**robot, **SLOW_CAMERA}, edge), threads=4)
    goals = Goals(client)
    assert goals.result(goals.send("remember that my keys hang by the door")).success
    answer = goals.result(goals.send("tell me where my keys are and where keys are cut"))
    assert answer.success and answer.steps == 0
    assert "my keys hang by the door" in answer.message and "at the kiosk" in answer.message
