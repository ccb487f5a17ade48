# SPDX-License-Identifier: Apache-2.0
"""Judges a running ROS graph from a snapshot of it. Needs no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from outrider.runtime.diagnosis.graph_view import GraphView, NodeView, TopicView
from outrider.runtime.diagnosis.topic_health import (
    TWIST,
    TWIST_STAMPED,
    VELOCITIES,
    several_publishers,
    wrong_publishers,
    wrong_subscribers,
)

MAX_AGE_S, MAX_AHEAD_S = 0.5, 0.5
IMAGE, ODOMETRY, SCAN = "sensor_msgs/msg/Image", "nav_msgs/msg/Odometry", "sensor_msgs/msg/LaserScan"
STAMPED = (IMAGE, ODOMETRY, SCAN)
TEXT, REPORT = "outrider_interfaces/msg/VerifiedText", "outrider_interfaces/msg/MotionReport"
STOP, CLOCK, REQUEST = "std_msgs/msg/Bool", "/clock", "unitree_api/msg/Request"
SPORT = "/api/sport/request"
# Names before remappings, for the advice.
NAMES = {IMAGE: "camera/image_raw", ODOMETRY: "odom", SCAN: "scan", TEXT: "verified_text"}
# Outrider's nodes that read velocities but are no base.
ONLOOKERS = frozenset({"console", "record", "markers", "mission"})


class Grade(str, Enum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One line of `outrider doctor`: the subject, the finding, and a remedy if there is a fault."""

    name: str
    grade: Grade
    detail: str
    advice: str = ""


def judge_graph(view: GraphView) -> list[Check]:
    """Returns the checks that apply to the running nodes, without duplicates."""
    if not view.nodes:
        return [
            Check(
                "ROS graph",
                Grade.WARN,
                f"no Outrider node on domain {view.domain}",
                "start `outrider demo` or a launch file, and use the same ROS_DOMAIN_ID here",
            )
        ]
    names = ", ".join(node.name for node in view.nodes)
    checks = [Check("ROS graph", Grade.OK, f"on domain {view.domain}: {names}")]
    for node in view.nodes:
        checks += _clock(view, node)
        for judge in _JUDGES.get(node.spec, ()):
            checks += judge(view, node)
    checks += _mismatches(view) + _silent(view)
    known_details = {check.detail for check in checks}
    checks += [
        check for node in view.nodes for check in _own_words(node) if check.detail not in known_details
    ]
    return list(dict.fromkeys(checks))


def _own_words(node: NodeView) -> list[Check]:
    if not node.warning:
        return [Check(f"node {node.name}", Grade.OK, "well")]
    advice = f"ros2 lifecycle set /{node.name} activate" if node.warning == "inactive" else ""
    return [Check(f"node {node.name}", Grade.WARN, node.warning, advice)]


def _silent(view: GraphView) -> list[Check]:
    """Check for nodes that publish Outrider's own types, but no diagnostics."""
    known = {node.name for node in view.nodes}
    publishers = [end for topic in view.topics.values() for end in topic.publishers]
    silent = sorted({end.node for end in publishers if end.type in (TEXT, REPORT)} - known)
    advice = "look at its log: it hangs, or has died and DDS has not forgotten it yet"
    return [Check(f"node {name}", Grade.WARN, "publishes no diagnostics", advice) for name in silent]


def _clock(view: GraphView, node: NodeView) -> list[Check]:
    """Check that a simulated clock has a publisher."""
    if node.values.get("use_sim_time") != "True" or view.topic(CLOCK).publishers:
        return []
    detail = f"{node.name} has use_sim_time, and nobody publishes {CLOCK}"
    return [Check("simulated clock", Grade.FAIL, detail, "start the simulator, or set use_sim_time:=false")]


def _input(message: str, alone: bool = True) -> Callable[[GraphView, NodeView], list[Check]]:
    """Returns a check of a node's inputs of one type: their publishers, and the age of their messages."""

    def judge(view: GraphView, node: NodeView) -> list[Check]:
        checks: list[Check] = []
        for topic in view.read_by(node, message):
            checks += _publishers(view, node, topic, message, alone)
            if view.topic(topic).publishers:
                checks += _age(view, topic)
        return checks

    return judge


def _publishers(view: GraphView, node: NodeView, topic: str, message: str, alone: bool) -> list[Check]:
    there = view.topic(topic).publishers
    name = f"publishers of {topic}"
    fault = wrong_publishers(topic, message, there) or (several_publishers(topic, there) if alone else "")
    if fault:
        return [Check(name, Grade.FAIL, fault, "the robot stands until it is mended")]
    if there:
        return [Check(name, Grade.OK, ", ".join(sorted({end.node for end in there})))]
    return [Check(name, Grade.FAIL, "none", _source_advice(view, topic, message))]


def _source_advice(view: GraphView, topic: str, message: str) -> str:
    alternatives = [
        name
        for name, there in sorted(view.topics.items())
        if any(end.type == message for end in there.publishers)
    ]
    if alternatives and message in NAMES:
        return f"{', '.join(alternatives)} is published: remap with -r {NAMES[message]}:={alternatives[0]}"
    return f"start the node that publishes {topic}"


def _age(view: GraphView, topic: str) -> list[Check]:
    if topic not in view.ages_s:
        return []
    name, age_s = f"age on {topic}", view.ages_s[topic]
    if age_s is None:
        return [Check(name, Grade.FAIL, "no message came", f"look at the node that publishes {topic}")]
    if -MAX_AHEAD_S <= age_s <= MAX_AGE_S:
        return [Check(name, Grade.OK, f"{max(age_s, 0.0) * 1000:.0f} ms")]
    advice = "look for a busy computer, a slow network, or a publisher with another clock"
    return [Check(name, Grade.WARN, f"{age_s:.2f} s", advice)]


def _scan(view: GraphView, node: NodeView) -> list[Check]:
    """Check the scan like any input, and that tf joins its frame to the robot.

    An action node whose `use_scan` is off gets a warning instead.
    """
    if node.values.get("use_scan") == "False":
        return [Check("scan", Grade.WARN, "use_scan is off: nothing keeps the robot from obstacles")]
    checks, base = _input(SCAN)(view, node), node.values.get("base_frame", "base_link")
    for topic in view.read_by(node, SCAN):
        frame = view.frames.get(topic)
        if frame is not None and not _are_joined(view.transforms, frame, base):
            advice = f"publish the static transform {base} -> {frame} of the sensor's mount"
            detail = f"tf does not join {frame or 'a frame without a name'}, of {topic}, to {base}"
            checks.append(Check(f"frame of {topic}", Grade.FAIL, detail, advice))
    return checks


def _are_joined(transforms: Iterable[tuple[str, str]], first: str, second: str) -> bool:
    """Whether a chain of transforms leads from one frame to another."""
    reached, edges = {first.lstrip("/")}, [(a.lstrip("/"), b.lstrip("/")) for a, b in transforms]
    for _ in edges:
        reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
    return second in reached


def _texts(view: GraphView, node: NodeView) -> list[Check]:
    """Check the publisher of texts. A missing one is a warning: people may drive a robot without it."""
    topics = view.read_by(node, TEXT)
    checks = [check for topic in topics for check in _publishers(view, node, topic, TEXT, alone=True)]
    missing = Check("texts", Grade.WARN, "no navigator is there", "start one to go by texts")
    return [missing if check.detail == "none" else check for check in checks]


def _people(view: GraphView, node: NodeView) -> list[Check]:
    """Check that stops and velocities from people can be received. There need not be a publisher."""
    topics = [(name, STOP) for name in view.read_by(node, STOP)]
    topics += [(name, type_name) for type_name in VELOCITIES for name in view.read_by(node, type_name)]
    faults = [(name, wrong_publishers(name, kind, view.topic(name).publishers)) for name, kind in topics]
    return [
        Check(f"publishers of {name}", Grade.FAIL, fault, "the robot stands until it is mended")
        for name, fault in faults
        if fault
    ]


def _commands(view: GraphView, node: NodeView) -> list[Check]:
    """Check that velocities reach a base, and come only from the action node."""
    for type_name in VELOCITIES:
        for topic in view.published_by(node, type_name):
            return _velocities(view, node, topic, type_name)
    if any(topic.endswith(SPORT) for topic in view.published_by(node, REQUEST)):
        return [check for t in view.published_by(node, REQUEST) for check in _requests(view, node, t)]
    return []  # a dry run, which the node itself reports


def _requests(view: GraphView, node: NodeView, topic: str) -> list[Check]:
    readers = _readers(view, node, topic)
    if readers:
        return [Check("velocity commands", Grade.OK, f"{topic}, read by {', '.join(readers)}")]
    return [Check("velocity commands", Grade.FAIL, f"nobody reads {topic}", "start the robot")]


def _velocities(view: GraphView, node: NodeView, topic: str, type_name: str) -> list[Check]:
    name = "velocity commands"
    there = view.topic(topic)
    wrong = wrong_publishers(topic, type_name, there.publishers, "published") or wrong_subscribers(
        topic, type_name, there.readers
    )
    if wrong:
        return [Check(name, Grade.FAIL, wrong, "the robot stands until it is mended")]
    readers = _readers(view, node, topic)
    if not readers:
        return [Check(name, Grade.FAIL, f"nobody listens to {topic}", _listener_advice(view, node))]
    unfit = {m.reader: m.reason for m in there.mismatches if m.publisher == node.name}
    if set(readers) <= set(unfit):
        detail = f"the QoS of {topic} does not fit that of {', '.join(readers)}: {unfit[readers[0]]}"
        return [Check(name, Grade.FAIL, detail, "let the base read it reliably or best-effort, and volatile")]
    other_publishers = sorted({end.node for end in there.publishers} - {node.name})
    if (
        other_publishers and node.values.get("command_interface") != "nav2"
    ):  # nav2 publishes for the action node
        advice = "stop it, or let twist_mux choose (config/twist_mux.yaml)"
        return [
            Check(name, Grade.WARN, f"{topic} is also published by {', '.join(other_publishers)}", advice)
        ]
    return [Check(name, Grade.OK, f"{topic}, read by {', '.join(readers)}")]


def _readers(view: GraphView, node: NodeView, topic: str) -> list[str]:
    """Returns the nodes that may be a base."""
    ours = {other.name for other in view.nodes if other.spec in ONLOOKERS} | {node.name}
    return sorted({end.node for end in view.topic(topic).readers} - ours)


def _listener_advice(view: GraphView, node: NodeView) -> str:
    waiting = [
        name
        for name, there in sorted(view.topics.items())
        if any(end.type in (TWIST, TWIST_STAMPED) for end in there.readers)
        and _readers(view, node, name)
        and not there.publishers
    ]
    if waiting:
        return f"a base listens to {waiting[0]}: remap with -r cmd_vel:={waiting[0]}"
    return "start the base's driver, or set the action node's parameter command_interface"


def _mismatches(view: GraphView) -> list[Check]:
    """Check QoS on Outrider's topics: a failure if one of its nodes receives nothing, else a warning."""
    ours = {node.name for node in view.nodes}
    checks = []
    for topic, there in sorted(view.topics.items()):
        if ours.isdisjoint(end.node for end in (*there.publishers, *there.readers)):
            continue
        for mismatch in there.mismatches:
            deaf = mismatch.reader in ours and _is_deaf(there, mismatch.reader)
            detail = f"{mismatch.publisher} -> {mismatch.reader}: {mismatch.reason}"
            grade = Grade.FAIL if deaf else Grade.WARN
            advice = "give both sides the same reliability and durability"
            checks.append(Check(f"QoS on {topic}", grade, detail, advice))
    return checks


def _is_deaf(there: TopicView, reader: str) -> bool:
    unfit = {mismatch.publisher for mismatch in there.mismatches if mismatch.reader == reader}
    return {end.node for end in there.publishers} <= unfit


_JUDGES: Mapping[str, tuple[Callable[[GraphView, NodeView], list[Check]], ...]] = {
    "action": (_input(ODOMETRY), _scan, _texts, _people, _commands),
    "navigator": (_input(IMAGE), _input(ODOMETRY), _input(REPORT, alone=False)),
}
