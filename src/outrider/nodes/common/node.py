# SPDX-License-Identifier: Apache-2.0
"""The base class of every node: parameters, guarded transitions, diagnostics, and an orderly end."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter as RosParameter

from outrider.core.errors import ConfigError, OutriderError
from outrider.navigation.clocks import NO_CLOCK
from outrider.nodes.common import qos as quality
from outrider.nodes.common.declared_parameters import declare_parameters, ros_parameters, topic_name
from outrider.nodes.common.lifecycle import AnsweringNode
from outrider.nodes.common.topic_watch import LOOK_PERIOD_S, TopicWatch, type_of
from outrider.runtime.diagnosis.topic_health import node_name
from outrider.runtime.node_graph.namespaces import diagnostics_name
from outrider.runtime.node_graph.node_specs import NODES
from outrider.runtime.node_graph.parameters import Value

DIAGNOSTICS_PERIOD_S = 1.0
PERSISTENT_PERIODS = 3
IDLE = frozenset({"", "inactive", "unconfigured", "not serving"})
REMAP = "remap with -r {0}:={1}, or at the launch with remap:={0}={1}"
# The prefix of messages from the bridge to the node `gazebo`, which republishes them. No other node reads it.
BRIDGED = "gazebo/"


class OutriderNode(AnsweringNode):
    """A lifecycle node. Subclasses set `spec_name` and override the methods from `configure` to `apply_live`.

    An OutriderError in a transition becomes a logged FAILURE. Any other exception is logged with its trace
    and becomes an ERROR. Entities that `configure` passed to `keep` are destroyed on cleanup.
    """

    spec_name: str
    look_period_s = LOOK_PERIOD_S

    def __init__(self, overrides: Mapping[str, Value] | None = None) -> None:
        spec = NODES[self.spec_name]
        super().__init__(
            spec.name,
            parameter_overrides=ros_parameters(overrides),
            automatically_declare_parameters_from_overrides=True,
        )
        self.spec = spec
        declare_parameters(self, spec)
        self._configured = False
        self.add_on_set_parameters_callback(self._check_parameters)
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        self.watch = TopicWatch(self)
        self._active_timers: list[Any] = []
        self._active_period = object()
        events = quality.without_events(of_publisher=True)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10, event_callbacks=events)
        # In real time: a simulated clock that does not run must be diagnosed too.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(DIAGNOSTICS_PERIOD_S, self._publish_diagnostics, clock=self._steady)
        self.create_timer(self.look_period_s, self.watch.look, clock=self._steady)
        self._last_warning, self._times_warned = "", 0
        self.failure = ""
        self._starting = False
        self.on_loaded: Callable[[], None] = lambda: None
        """Called once all resources are loaded, before the node acts. The owner of the process may set it."""

    def configure(self) -> None:
        """Make resources; raise OutriderError if that is impossible."""

    def activate(self) -> None:
        """Start to act."""

    def deactivate(self) -> None:
        """Stop acting. It must leave the robot standing; it is also called at shutdown."""

    def cleanup(self) -> None:
        """Free what `configure` made besides the kept entities, even if it failed halfway."""

    def health(self) -> tuple[str, dict[str, object]]:
        """Returns a warning (empty if all is well) and values for /diagnostics."""
        return "", {}

    def apply_live(self, changed: Mapping[str, Value]) -> None:
        """Apply live parameters at once, before they are set. Raise ConfigError to refuse all of them."""

    def value(self, name: str) -> Any:
        """Returns the value of a parameter; a path without a leading `~`."""
        value = self.get_parameter(name).value
        paths = [spec for spec in self.spec.parameters if spec.name == name and spec.is_path]
        return paths[0].checked(value, self.spec.name) if paths else value

    @property
    def frame_prefix(self) -> str:
        """The prefix of this robot's tf frames."""
        return str(self.value("frame_prefix"))

    def frame(self, name: str) -> str:
        """Returns the name of a tf frame of this robot, such as base_link."""
        return self.frame_prefix + name

    def go2_topic(self, name: str) -> str:
        """Returns a topic of the Go2's firmware, which is absolute, with this robot's prefix."""
        return topic_name(str(self.value("go2_prefix")) + name, "go2_prefix")

    @property
    def is_simulated(self) -> bool:
        """Whether time is simulated. The node's clock is then that of every stamp."""
        return bool(self.get_parameter("use_sim_time").value)

    @property
    def lacks_clock(self) -> bool:
        """Whether time is simulated and its clock has never run."""
        return self.is_simulated and self.now_s() <= 0.0

    def now_s(self) -> float:
        """Returns seconds for durations: simulated if time is simulated, else monotonic."""
        if self.is_simulated:
            return self.get_clock().now().nanoseconds * 1e-9
        return time.monotonic()

    def stamp_s(self, moment_s: float) -> float:
        """Returns a moment of `now_s` in seconds of the clock that stamps messages."""
        return self.get_clock().now().nanoseconds * 1e-9 - (self.now_s() - moment_s)

    def publisher(self, message: type, topic: str, qos: Any) -> Any:
        """Returns a new publisher, which is watched and freed with the node."""
        events = quality.without_events(of_publisher=True)
        entity = self.create_publisher(message, topic, qos, event_callbacks=events)
        self.watch.add(entity, topic)
        return self.keep(entity, self.destroy_publisher)

    def subscription(
        self,
        message: type,
        topic: str,
        callback: Callable[..., None],
        qos: Any,
        alone: bool = False,
        **more: Any,
    ) -> Any:
        """Subscribe until cleanup. With `alone`, several publishers of the topic are a fault."""
        more = {"event_callbacks": quality.without_events(), **more}
        entity = self.create_subscription(message, topic, callback, qos, **more)
        self.watch.add(entity, topic, alone)
        return self.keep(entity, self.destroy_subscription)

    def why_silent(self, topic: str, message: type, remedy: str = REMAP) -> str:
        """Returns why a topic may be silent, with a remedy; `remedy` is for a topic of another name."""
        name = self.resolve_topic_name(topic)
        if self._is_published(name):
            return (
                f"nothing comes on {name}, though it is published: `outrider doctor` looks at its QoS and age"
            )
        kind, bridged = type_of(message), self.resolve_topic_name(BRIDGED + "odom").removesuffix("odom")
        others = [
            other
            for other, kinds in self.get_topic_names_and_types()
            if kind in kinds and not other.startswith(bridged) and self._is_published(other)
        ]
        if not others:
            return f"nobody publishes {name}: start its source"
        return f"nobody publishes {name}, but {', '.join(others)}: {remedy.format(topic, others[0])}"

    def _is_published(self, name: str) -> bool:
        """Whether a node other than this one publishes it."""
        own = self.get_name(), self.get_namespace()
        ends = self.get_publishers_info_by_topic(name)
        return any((end.node_name, end.node_namespace) != own for end in ends)

    def keep(self, entity: Any, destroy: Callable[[Any], Any]) -> Any:
        """Remember how to destroy an entity on cleanup."""
        self._entities.append((destroy, entity))
        return entity

    def drop(self, entity: Any) -> None:
        """Destroy a kept entity before cleanup."""
        for destroy, known in [pair for pair in self._entities if pair[1] is entity]:
            self._entities.remove((destroy, known))
            self.watch.remove(known)
            destroy(known)

    def active_timer(self, period_s: float, callback: Callable[[], None], **more: Any) -> Any:
        """Returns a timer in real time, which a clock that is set back does not stop, until deactivation."""
        active_period = self._active_period

        def call() -> None:
            if self._active_period is active_period:
                callback()
            else:
                # Cancel it in its own callback: another thread could cancel it just before it is called.
                timer.cancel()

        timer = self.create_timer(period_s, call, **{"clock": self._steady, **more})
        self._active_timers.append(timer)
        return timer

    def living_timer(self, period_s: float, callback: Callable[[], None]) -> list[Any]:
        """Returns active timers for heartbeats: in real time, and on a simulated clock if there is one."""
        timers = [self.active_timer(period_s, callback)]
        if self.is_simulated:
            timers.append(self.active_timer(period_s, callback, clock=self.get_clock()))
        return timers

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `configure`; free everything again if it fails."""
        self._configured = True
        outcome = self._guarded(self.configure)
        if outcome is not TransitionCallbackReturn.SUCCESS:
            self._free()
        return outcome

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `activate`; stop acting again if it fails."""
        self.on_loaded()
        outcome = self._guarded(self.activate)
        if outcome is TransitionCallbackReturn.SUCCESS:
            return super().on_activate(state)
        self._guarded(self.stop_acting)
        return outcome

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `stop_acting`, then deactivate the publishers."""
        outcome = self._guarded(self.stop_acting)
        return super().on_deactivate(state) if outcome is TransitionCallbackReturn.SUCCESS else outcome

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free what `configure` has made."""
        return self._guarded(self._free)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the node from any state."""
        return self._guarded(self.end)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the node after a transition that failed."""
        return self._guarded(self.end)

    def start(self) -> None:
        """Configure and activate if `autostart` says so. Raises OutriderError if a transition fails."""
        if not self.value("autostart"):
            return
        self._starting = True
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() is not TransitionCallbackReturn.SUCCESS:
                raise OutriderError(self.failure or f"{self.spec.name} could not be started")
        self._starting = False

    def end(self) -> None:
        """Stop acting and free everything; safe to call in any state, and twice."""
        self.stop_acting()
        self._free()

    def stop_acting(self) -> None:
        """End the active timers and deactivate; safe to call in any state, and twice."""
        self._active_period = object()
        for timer in self._active_timers:
            self.keep(timer, self.destroy_timer)
        self._active_timers.clear()
        self.deactivate()

    def _free(self) -> None:
        self.cleanup()
        self._destroy_entities()
        self._configured = False

    def _check_parameters(self, changed: list[RosParameter]) -> SetParametersResult:
        """Refuse invalid values, and values that would not take effect in the present state."""
        specs = {parameter.name: parameter for parameter in self.spec.parameters}
        values: dict[str, Value] = {}
        for parameter in changed:
            spec = specs.get(parameter.name)
            if spec is None:
                continue
            if self._configured and not spec.live:
                reason = f"{spec.name} is read when the node is configured: clean it up, set it, configure it"
                return SetParametersResult(successful=False, reason=reason)
            try:
                values[spec.name] = spec.checked(parameter.value, self.spec.name)
            except ConfigError as error:
                return SetParametersResult(successful=False, reason=str(error))
        try:
            self.apply_live(values if self._configured else {})
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _destroy_entities(self) -> None:
        while self._entities:
            destroy, entity = self._entities.pop()
            self.watch.remove(entity)
            destroy(entity)

    def _guarded(self, step: Callable[[], None]) -> TransitionCallbackReturn:
        try:
            step()
        except OutriderError as error:
            self.failure = str(error)
            if not self._starting:  # while starting, the caller reports it
                self.get_logger().error(self.failure)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            self.get_logger().error(traceback.format_exc())
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    def _publish_diagnostics(self) -> None:
        warning, values = self.health()
        warning = self.watch.fault() or warning
        warning = NO_CLOCK if self.lacks_clock else warning
        self._log_persistent(warning)
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if warning else DiagnosticStatus.OK,
            name=diagnostics_name(self.get_namespace(), self.spec.name),
            message=warning or "ok",
            hardware_id=self.get_namespace().strip("/") or "outrider",
            values=[KeyValue(key=key, value=str(it)) for key, it in (values | self._identity()).items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(array)

    def _identity(self) -> dict[str, object]:
        """Returns values that identify the node in the graph, whatever its name and namespace."""
        name = node_name(self.get_name(), self.get_namespace())
        return {"node": name, "use_sim_time": self.is_simulated}

    def _log_persistent(self, warning: str) -> None:
        """Log, once, a warning that stays in the diagnostics for a while. Its digits may change."""
        kind = re.sub(r"\d", "", warning)
        self._times_warned = self._times_warned + 1 if kind == self._last_warning else 1
        self._last_warning = kind
        if self._times_warned == PERSISTENT_PERIODS and warning not in IDLE:
            self.get_logger().warning(warning)


def pace(timers: Iterable[Any], period_s: float) -> None:
    """Set another period for timers, which begins now. Call it from a callback of their group."""
    period_ns = round(period_s * 1e9)
    for timer in timers:
        if timer.timer_period_ns != period_ns:
            timer.timer_period_ns = period_ns
            timer.reset()
