"""Several verifiers behind one endpoint: Ray Serve starts them, restarts them and says whose robot is whose.

Robots are placed by a consistent hash of their key, so that a session finds its cache. Frames do not pass
through Ray: the relay speaks ZeroMQ to each replica, with keys made for this run.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError, LinkError
from outrider.core.ports import FrameLink, LanguageModel
from outrider.decoding.cloud import CloudLimits
from outrider.decoding.service import VerifierService, serve_frames
from outrider.runtime.relay import RelayService
from outrider.runtime.supervisor import free_port
from outrider.wire.client import DealerLink
from outrider.wire.gate import GateLimits
from outrider.wire.keys import ClientKeys, ServerKeys, load_server_keys, make_keys
from outrider.wire.server import RouterServer

_log = logging.getLogger(__name__)
_ROUTER = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"
_LOOKUP_S = 5.0
_NUM_KEYS = 256
MakeModel = Callable[[], LanguageModel]


@dataclass(frozen=True)
class Place:
    """Where a replica listens, and its process."""

    endpoint: str
    pid: int


class Replica:
    """One verifier in a process of Ray's."""

    def __init__(self, make_model: MakeModel, limits: CloudLimits, keys: ServerKeys) -> None:
        import ray

        endpoint = f"tcp://{ray.util.get_node_ip_address()}:{free_port()}"
        self._place = Place(endpoint, os.getpid())
        service = VerifierService(make_model(), limits)
        server = RouterServer(endpoint, keys, GateLimits(sessions_per_peer=limits.max_sessions))
        self._thread = threading.Thread(
            target=serve_frames, args=(service, server, threading.Event()), name="verifier", daemon=True
        )
        self._thread.start()

    def __call__(self) -> Place:
        return self._place

    def check_health(self) -> None:
        """Asked by Ray, which restarts a replica that raises."""
        if not self._thread.is_alive():
            raise RuntimeError("the verifier's thread has ended")


class RayPlacement:
    """Asks Ray Serve's router."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def place_of(self, owner: str) -> Place:
        """Raises LinkError where no replica answers."""
        try:
            place: Place = self._handle.options(session_id=owner).remote().result(timeout_s=_LOOKUP_S)
        except Exception as error:
            raise LinkError(f"no replica answers ({type(error).__name__}): trying again") from error
        return place

    def endpoint_of(self, owner: str) -> str:
        return self.place_of(owner).endpoint


@contextmanager
def replicated(
    make_model: MakeModel, replicas: int, limits: CloudLimits, keys: ServerKeys
) -> Iterator[RayPlacement]:
    """So many replicas while inside, on this machine or on the cluster of $RAY_ADDRESS."""
    ray, serve, config = _import_ray()
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    ray.init(include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    deployment = serve.deployment(
        num_replicas=replicas,
        ray_actor_options={"num_cpus": 0.1},
        max_ongoing_requests=64,
        health_check_period_s=1.0,
        request_router_config=config.RequestRouterConfig(request_router_class=_ROUTER),
    )(Replica)
    try:
        serve.start(http_options=config.HTTPOptions(location="NoServer"))
        yield RayPlacement(serve.run(deployment.bind(make_model, limits, keys), name="outrider"))
    finally:
        serve.shutdown()
        ray.shutdown()


def serve_replicas(
    make_model: MakeModel,
    endpoint: str,
    replicas: int,
    *,
    stop: threading.Event,
    limits: CloudLimits | None = None,
    key_file: Path | None = None,
    on_ready: Callable[[RayPlacement], None] = lambda placement: None,
) -> None:
    """Relay robots at `endpoint` to replicas until `stop` is set. `key_file` is that of the robots' keys.

    Raises ConfigError without ray, or where the endpoint cannot be bound.
    """
    server_keys, client_keys = make_keys(tuple(f"relay-{number}" for number in range(_NUM_KEYS)))
    next_keys = itertools.cycle(client_keys.values())
    server = RouterServer(endpoint, load_server_keys(key_file) if key_file is not None else None)
    try:
        with replicated(make_model, replicas, limits or CloudLimits(), server_keys) as placement:
            relay = RelayService(placement, lambda where: _link(where, next(next_keys)))
            on_ready(placement)
            try:
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
        raise ConfigError("replicas need ray: pip install 'outrider[replicas]'") from None
    return ray, serve, config
