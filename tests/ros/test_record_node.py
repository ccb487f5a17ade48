"""A recorded run, decoded again: recorder, navigator and action node over DDS."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Client, NodeThread, wait_until
from fakes import SLOW_CAMERA, ScriptedDecoder
from geometry_msgs.msg import Twist
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from outrider_interfaces.msg import VerifiedText
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Bool
from support_ros import EdgeNavigator, FakeBase, Goals, PatientAction, Speaker, StillCamera

from outrider.core.errors import ConfigError, OutriderError
from outrider.nodes.common import qos
from outrider.nodes.observers.message_definitions import full_definition, message_class
from outrider.nodes.observers.record_node import RecordNode
from outrider.runtime.reports.recording import read_steps
from outrider.runtime.wiring.robot_pair import Edge

pytestmark = pytest.mark.ros
TURN = "turn left small\nlook: nothing"


def messages(path: Path, topic: str) -> list[tuple[str, bytes]]:
    """Returns type and content of a topic's messages, found by the index at the end of the file."""
    with path.open("rb") as stream:
        found = make_reader(stream).iter_messages(topics=[topic])
        return [(schema.name, message.data) for schema, _, message in found]


def test_a_run_is_recorded_as_it_was_and_its_steps_are_read_back(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path
) -> None:
    decoder, path = ScriptedDecoder([TURN]), tmp_path / "new" / "run.mcap"

    base = FakeBase(client)
    StillCamera(client)
    recorder = run_node(lambda: RecordNode({"file": str(path)}))
    run_node(PatientAction)
    run_node(lambda: EdgeNavigator({"use_memory": False, **SLOW_CAMERA}, Edge(decoder, None)), threads=4)
    topics = ("step_prompt", "verified_text", "camera/image_raw", "odom", "cmd_vel", "scan")
    names = {f"/{topic}" for topic in topics}
    wait_until(lambda: names <= set(recorder.node._channels), "the recorder's subscriptions")
    goals = Goals(client)
    assert goals.result(goals.send("find the red chair")).success
    wait_until(lambda: recorder.node._messages > 50, "recorded messages")
    assert recorder.node.health()[0] == ""
    recorder.stop()

    steps = read_steps(path)
    assert [step.text for step in steps] == [TURN, "stop\nthere: done"]
    assert [step.request.prompt.text for step in steps] == decoder.prompts
    assert all(step.finished and step.verified_tokens == 3 for step in steps)
    assert steps[0].request.prompt.jpeg.startswith(b"\xff\xd8")
    kind, serialized = messages(path, "/camera/image_raw/compressed")[-1]
    assert kind == "sensor_msgs/msg/CompressedImage"
    assert deserialize_message(serialized, CompressedImage).data[:2].tobytes() == b"\xff\xd8"
    turned = {deserialize_message(m, Twist).angular.z for _, m in messages(path, "/cmd_vel")}
    heard = {velocity.wz for _, velocity in base.commands}
    assert max(turned & heard) > 0.0, "either may miss one of many commands where it is held up"


def test_every_recorded_definition_is_whole() -> None:
    for name in ("outrider_interfaces/msg/VerifiedText", "tf2_msgs/msg/TFMessage", "nav_msgs/msg/Odometry"):
        definition = full_definition(name)
        factory = DecoderFactory()
        schema = type(
            "Schema", (), {"id": 1, "name": name, "encoding": "ros2msg", "data": definition.encode()}
        )
        assert factory.decoder_for("cdr", schema) is not None
        assert "MSG: builtin_interfaces/Time" in definition
    assert message_class("outrider_interfaces/msg/VerifiedText") is VerifiedText
    with pytest.raises(ConfigError, match="nowhere_msgs/msg/Thing is not installed"):
        message_class("nowhere_msgs/msg/Thing")


def test_all_pictures_of_a_run_are_recorded_and_few_without_one(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path
) -> None:
    StillCamera(client)
    speaker = Speaker(client)
    recorder = run_node(lambda: RecordNode({"file": str(tmp_path / "run.mcap")}))
    node = recorder.node
    wait_until(lambda: "/camera/image_raw" in node._channels and node._messages > 4, "a few pictures")
    speaker.say(1, "stop")
    wait_until(lambda: node._messages > 80, "texts and pictures")
    recorder.stop()
    with (tmp_path / "run.mcap").open("rb") as stream:
        found = list(make_reader(stream).iter_messages(topics=["/camera/image_raw/compressed"]))
    times_s = [message.log_time * 1e-9 for _, _, message in found]
    assert times_s == sorted(times_s)
    assert times_s[3] - times_s[0] > 2.0, "one a second"
    assert times_s[-1] - times_s[-11] < 1.5, "all ten of a second"


def test_two_types_on_one_topic_are_named_and_the_rest_recorded(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path
) -> None:
    recorder = run_node(lambda: RecordNode({"file": str(tmp_path / "run.mcap")}))
    # One process cannot have both types on a topic, so the test passes what the graph would report.
    kinds = ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped")
    recorder.node._follow("/cmd_vel", [SimpleNamespace(topic_type=kind) for kind in kinds])
    client.publish(Bool(), "e_stop", qos.LATCHED, wait=False)
    wait_until(lambda: recorder.node._messages, "the latched message")
    assert recorder.node.health()[0] == "not recorded: /cmd_vel"
    recorder.stop()
    (kind, serialized), *_ = messages(tmp_path / "run.mcap", "/e_stop")
    assert kind == "std_msgs/msg/Bool" and deserialize_message(serialized, Bool).data is False


def test_a_full_disk_ends_the_recording_and_nothing_else(
    run_node: Callable[..., NodeThread], client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = run_node(lambda: RecordNode({"file": str(tmp_path / "run.mcap")}))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("add_message", "finish"):
        monkeypatch.setattr(recorder.node._writer, name, full)
    client.publish(Bool(), "e_stop", qos.LATCHED, wait=False)
    wait_until(lambda: "No space left" in recorder.node.health()[0], "the reason")
    stream = recorder.node._stream
    recorder.stop()
    assert stream.closed


def test_a_recording_is_never_overwritten(run_node: Callable[..., NodeThread], tmp_path: Path) -> None:
    (tmp_path / "run.mcap").write_text("precious")
    with pytest.raises(OutriderError, match=r"run.mcap is there already"):
        run_node(lambda: RecordNode({"file": str(tmp_path / "run.mcap")}))
    assert (tmp_path / "run.mcap").read_text() == "precious"
