# SPDX-License-Identifier: Apache-2.0
"""Several verifiers behind one endpoint: Ray Serve starts, restarts and assigns them.

A consistent hash of a robot's key selects its verifier, so that a session stays with its key/value cache.
Frames do not pass through Ray: the relay and the replicas exchange them over ZeroMQ, with keys made for
this run.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError, LinkError, ModelError
from outrider.core.ports import FrameLink, LanguageModel
from outrider.decoding.drivers.serving import serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.ports import free_port
from outrider.runtime.common.present import NO_RAY
from outrider.runtime.common.process_memory import keep_loaded
from outrider.runtime.wiring.metrics import Figures, metrics_page
from outrider.runtime.wiring.relay import RelayService
from outrider.runtime.wiring.verifier import Verifier
from outrider.wire.client import DealerLink
from outrider.wire.gate import GateLimits
from outrider.wire.keys import ClientKeys, ServerKeys, load_server_keys, make_keys
from outrider.wire.server import RouterServer

_log = logging.getLogger(__name__)
_ROUTER = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
_LOOKUP_S = 5.0
_FIGURES_S = 1.0
"""How long a request for the metrics page waits for the replicas' figures."""
_NUM_KEYS = 256
_NAME = "outrider"
FRONT = "front"
"""The name of the socket in front of the replicas, next to their addresses."""
_POLL_S = 0.2
MakeModel = Callable[[], LanguageModel]


@dataclass(frozen=True)
class ReplicaAddress:
    """A replica's endpoint and its process."""

    endpoint: str
    pid: int


class Replica:
    """One verifier in a Ray process."""

    def __init__(self, make_model: MakeModel, limits: CloudLimits, keys: ServerKeys) -> None:
        import ray

        endpoint = f"tcp://{ray.util.get_node_ip_address()}:{free_port()}"
        self._address = ReplicaAddress(endpoint, os.getpid())
        server = RouterServer(endpoint, keys, GateLimits(sessions_per_peer=limits.max_sessions))
        self._verifier = Verifier(VerifierService(make_model(), limits), server)
        keep_loaded()
        self._thread = threading.Thread(
            target=self._verifier.serve, args=(threading.Event(),), name="verifier", daemon=True
        )
        self._thread.start()

    def __call__(self) -> ReplicaAddress:
        return self._address

    def figures(self) -> tuple[str, dict[str, float]]:
        """Returns the replica's address and its counters."""
        return self._address.endpoint.removeprefix("tcp://"), self._verifier.figures()

    def check_health(self) -> None:
        """Raise if the verifier has ended: Ray then restarts the replica."""
        if not self._thread.is_alive():
            raise RuntimeError("the verifier's thread has ended")


class RayPlacement:
    """Assigns robots by Ray Serve's router."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def address_of(self, owner: str) -> ReplicaAddress:
        """Returns the replica for an owner. Raises LinkError if none answers."""
        try:
            address: ReplicaAddress = (
                self._handle.options(session_id=owner).remote().result(timeout_s=_LOOKUP_S)
            )
        except Exception as error:
            raise LinkError(f"no replica answers ({type(error).__name__}): trying again") from error
        return address

    def figures(self) -> dict[str, dict[str, float]]:
        """Returns the counters of each replica that answers, by its address."""
        try:
            replies = self._handle.broadcast("figures").results(timeout_s=_FIGURES_S, return_exceptions=True)
        except Exception as error:
            _log.warning("no replica tells its figures (%s)", type(error).__name__)
            return {}
        return dict(reply for reply in replies if not isinstance(reply, Exception))

    def endpoint_of(self, owner: str) -> str:
        """Returns the endpoint of the replica that serves an owner."""
        return self.address_of(owner).endpoint


def check_replicas(folder: Path, replicas: int, **options: Any) -> None:
    """Raise the error that `load_model` would raise in a replica with these options, before Ray starts.

    With RAY_ADDRESS, memory and devices are not checked: the cluster has other machines.
    """
    from outrider.models import check_model  # takes seconds to import

    check_model(folder, copies=0 if os.environ.get("RAY_ADDRESS") else replicas, **options)


def actor_options(device: str) -> dict[str, float]:
    """Returns the resources that Ray reserves for a replica: a GPU of its own if its model runs on one."""
    return {"num_cpus": 0.1} | ({"num_gpus": 1} if _on_gpu(device) else {})


def check_gpus(device: str, replicas: int, resources: Mapping[str, float]) -> None:
    """Raise ConfigError if Ray's `resources` lack a GPU for each replica: Ray would wait forever."""
    gpus = int(resources.get("GPU", 0))
    if _on_gpu(device) and gpus < replicas:
        raise ConfigError(
            f"{replicas} replicas on {device} need a GPU each, and Ray has {gpus}: "
            "start fewer, or add machines"
        )


def words_of(message: str) -> str:
    """Returns the text of a replica's error: the part of Ray's message below the last traceback."""
    lines = message.rstrip().splitlines()
    last_frame = max((n for n, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return " ".join(lines[last_frame + 1 :]).removeprefix(f"{ModelError.__module__}.") or message


def _on_gpu(device: str) -> bool:
    return device.partition(":")[0] == "cuda"


@contextmanager
def replicated(
    make_model: MakeModel,
    replicas: int,
    limits: CloudLimits,
    keys: ServerKeys,
    device: str,
    stop: threading.Event,
) -> Iterator[RayPlacement]:
    """Runs `replicas` replicas inside the context, on this machine or on the cluster of $RAY_ADDRESS.

    If `stop` is set it no longer waits for them to start. Raises ModelError, with a replica's error, if none
    starts, and ConfigError if GPUs are missing.
    """
    ray, serve, config = _import_ray()
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    _start(ray)
    deployment = serve.deployment(
        num_replicas=replicas,
        ray_actor_options=actor_options(device),
        max_constructor_retry_count=replicas,
        max_ongoing_requests=64,
        health_check_period_s=1.0,
        request_router_config=config.RequestRouterConfig(request_router_class=_ROUTER),
    )(Replica)
    try:
        check_gpus(device, replicas, ray.cluster_resources())
        serve.start(http_options=config.HTTPOptions(location="NoServer"))
        target = serve.RunTarget(deployment.bind(make_model, limits, keys), name=_NAME)
        (handle,) = serve.run_many([target], wait_for_applications_running=False)
        _wait_until_running(serve, stop)
        yield RayPlacement(handle)
    finally:
        serve.shutdown()
        ray.shutdown()


def _start(ray: Any) -> None:
    """Start Ray and restore the SIGTERM handler: Ray's own aborts a process that takes over 3 s to end."""
    handler = signal.getsignal(signal.SIGTERM)
    ray.init(include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _wait_until_running(serve: Any, stop: threading.Event) -> None:
    logged = ""
    while not stop.wait(_POLL_S):
        application = serve.status().applications[_NAME]
        if application.status == "RUNNING":
            return
        messages = [deployment.message for deployment in application.deployments.values()]
        reason = " ".join(words_of(message) for message in messages if message)
        if application.status == "DEPLOY_FAILED":
            raise ModelError(f"no replica starts: {reason or application.message}")
        if reason and reason != logged:
            logged = reason
            _log.warning("not all replicas have started: %s", reason)


def serve_replicas(
    make_model: MakeModel,
    endpoint: str,
    replicas: int,
    *,
    stop: threading.Event,
    device: str = "cpu",
    limits: CloudLimits | None = None,
    key_file: Path | None = None,
    metrics_port: int = 0,
    on_ready: Callable[[RayPlacement], None] = lambda placement: None,
) -> None:
    """Relay robots at `endpoint` to replicas until `stop` is set.

    `key_file` holds the robots' keys. A `metrics_port` other than 0 serves a page for Prometheus. `device`
    is the one on which `make_model` loads the model. Raises ConfigError without ray or GPUs, or if the
    endpoint cannot be bound, and ModelError if no replica starts.
    """
    server_keys, client_keys = make_keys(tuple(f"relay-{number}" for number in range(_NUM_KEYS)))
    next_keys = itertools.cycle(client_keys.values())
    keys = load_server_keys(key_file) if key_file is not None else None
    server = RouterServer(endpoint, keys, key_file=key_file)
    limits = limits or CloudLimits()
    try:
        with replicated(make_model, replicas, limits, server_keys, device, stop) as placement:
            if stop.is_set():
                return
            relay = RelayService(placement, lambda where: _link(where, next(next_keys)))

            def figures() -> dict[str, Figures]:
                return {FRONT: server.counters.values(), **placement.figures()}

            try:
                with metrics_page(figures, limits.max_sessions, metrics_port):
                    on_ready(placement)
                    serve_frames(relay, server, stop)
            finally:
                relay.close()
    finally:
        server.close()


def _link(endpoint: str, keys: ClientKeys) -> FrameLink:
    return DealerLink(endpoint, keys)


def _import_ray() -> tuple[Any, Any, Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        from ray import serve
        from ray.serve import config
    except ImportError:
        raise ConfigError(NO_RAY) from None
    return ray, serve, config
