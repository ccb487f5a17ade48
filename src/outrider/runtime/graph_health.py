"""What is right and wrong with a running ROS graph, judged from a snapshot of it. Pure; no ROS inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

MAX_AGE_S = 0.5
TWIST_TYPES = ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped")


class Grade(str, Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One line of the doctor: what was looked at, how it is, and what to do where it is not well."""

    name: str
    grade: Grade
    detail: str
    advice: str = ""


@dataclass(frozen=True)
class TopicView:
    """Who is at a topic: node names, and pairs of them whose QoS does not fit, with the reason."""

    type: str
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphView:
    """A snapshot: nodes, topics by full name, age of the newest message in seconds (None: none came)."""

    domain: str
    nodes: tuple[str, ...]
    topics: dict[str, TopicView] = field(default_factory=dict)
    ages_s: dict[str, float | None] = field(default_factory=dict)


def judge_graph(view: GraphView) -> list[Check]:
    """The checks that make sense for the nodes that are there."""
    ours = [
        name for name in ("camera", "simulation", "navigator", "action", "verifier") if name in view.nodes
    ]
    if not ours:
        return [
            Check(
                "ROS graph",
                Grade.WARN,
                f"no Outrider node on domain {view.domain}",
                "start `outrider demo` or a launch file, and use the same ROS_DOMAIN_ID here",
            )
        ]
    checks = [Check("ROS graph", Grade.OK, f"on domain {view.domain}: {', '.join(ours)}")]
    if ours == ["verifier"]:
        return checks  # the cloud's machine, which no topic reaches
    checks += [_publishers(view, topic) for topic in ("/camera/image_raw", "/odom", "/verified_text")]
    checks += _freshness(view)
    if "action" in view.nodes:
        checks += [_commands(view), _scan(view)]
    return checks + _mismatches(view)


def _publishers(view: GraphView, topic: str) -> Check:
    """Exactly one source for each topic that steers the robot."""
    publishers = view.topics.get(topic, TopicView("")).publishers
    name = f"publishers of {topic}"
    if len(publishers) == 1:
        return Check(name, Grade.OK, publishers[0])
    if publishers:
        detail = f"{len(publishers)}: {', '.join(publishers)}"
        return Check(name, Grade.WARN, detail, "stop all but one: their messages mix")
    return Check(name, Grade.FAIL, "none", f"start the node that publishes {topic}, or remap its topic to it")


def _freshness(view: GraphView) -> list[Check]:
    checks = []
    for topic, age_s in view.ages_s.items():
        name = f"age on {topic}"
        if age_s is None:
            checks.append(
                Check(name, Grade.FAIL, "no message came", f"look at the node that should publish {topic}")
            )
        elif not 0.0 <= age_s <= MAX_AGE_S:
            advice = "look for a busy computer, a slow network, or a publisher with another clock"
            checks.append(Check(name, Grade.WARN, f"{age_s:.2f} s", advice))
        else:
            checks.append(Check(name, Grade.OK, f"{age_s * 1000:.0f} ms"))
    return checks


def _commands(view: GraphView) -> Check:
    """Velocities must reach a base, and come from the action node alone."""
    name = "velocity commands"
    topic = view.topics.get("/cmd_vel", TopicView(""))
    sport = view.topics.get("/api/sport/request", TopicView(""))
    if sport.publishers and not topic.publishers:
        listeners = sport.subscribers
        grade = Grade.OK if listeners else Grade.FAIL
        return Check(
            name, grade, f"sport API, heard by {', '.join(listeners) or 'nobody'}", "start the robot"
        )
    others = [publisher for publisher in topic.publishers if publisher != "action"]
    if others:
        return Check(
            name,
            Grade.WARN,
            f"/cmd_vel is also published by {', '.join(others)}",
            "stop it, or put a multiplexer between",
        )
    if not topic.subscribers:
        return Check(name, Grade.FAIL, "nobody listens to /cmd_vel", _listener_advice(view))
    return Check(name, Grade.OK, f"/cmd_vel, heard by {', '.join(topic.subscribers)}")


def _listener_advice(view: GraphView) -> str:
    waiting = [
        topic
        for topic, there in sorted(view.topics.items())
        if there.type in TWIST_TYPES and set(there.subscribers) - {"action"} and not there.publishers
    ]
    if waiting:
        return f"a base listens to {waiting[0]}: remap with -r cmd_vel:={waiting[0]}"
    return "start the base's driver, or set the action node's parameter command_interface"


def _scan(view: GraphView) -> Check:
    if view.topics.get("/scan", TopicView("")).publishers:
        return Check("scan", Grade.OK, "published")
    return Check(
        "scan",
        Grade.FAIL,
        "nobody publishes /scan, so the action node moves nothing",
        "start the lidar's driver, or set use_scan:=false on a base that is watched",
    )


def _mismatches(view: GraphView) -> list[Check]:
    return [
        Check(f"QoS on {topic}", Grade.FAIL, mismatch, "give both sides the same reliability and durability")
        for topic, there in sorted(view.topics.items())
        for mismatch in there.mismatches
    ]
