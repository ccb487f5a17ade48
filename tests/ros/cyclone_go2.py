"""A Go2 on CycloneDDS, the robot's own middleware, with our own IDL: no ROS and no code of the nodes."""

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, float32, int16, int32, int64, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

LOOPBACK = (
    '<CycloneDDS><Domain><General><Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces>'
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    '<Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
)
YAW = 0.5
SERVICES = ("sport", "obstacles_avoid", "videohub")


@dataclass
class Identity(IdlStruct, typename="unitree_api.msg.dds_.RequestIdentity_"):
    id: int64
    api_id: int64


@dataclass
class Lease(IdlStruct, typename="unitree_api.msg.dds_.RequestLease_"):
    id: int64


@dataclass
class Policy(IdlStruct, typename="unitree_api.msg.dds_.RequestPolicy_"):
    priority: int32
    noreply: bool


@dataclass
class RequestHeader(IdlStruct, typename="unitree_api.msg.dds_.RequestHeader_"):
    identity: Identity
    lease: Lease
    policy: Policy


@dataclass
class Request(IdlStruct, typename="unitree_api.msg.dds_.Request_"):
    header: RequestHeader
    parameter: str
    binary: sequence[uint8]


@dataclass
class Status(IdlStruct, typename="unitree_api.msg.dds_.ResponseStatus_"):
    code: int32


@dataclass
class ResponseHeader(IdlStruct, typename="unitree_api.msg.dds_.ResponseHeader_"):
    identity: Identity
    status: Status


@dataclass
class Response(IdlStruct, typename="unitree_api.msg.dds_.Response_"):
    header: ResponseHeader
    data: str
    binary: sequence[uint8]


@dataclass
class TimeSpec(IdlStruct, typename="unitree_go.msg.dds_.TimeSpec_"):
    sec: int32
    nanosec: uint32


@dataclass
class ImuState(IdlStruct, typename="unitree_go.msg.dds_.IMUState_"):
    quaternion: array[float32, 4]
    gyroscope: array[float32, 3]
    accelerometer: array[float32, 3]
    rpy: array[float32, 3]
    temperature: uint8


@dataclass
class SportModeState(IdlStruct, typename="unitree_go.msg.dds_.SportModeState_"):
    stamp: TimeSpec
    error_code: uint32
    imu_state: ImuState
    mode: uint8
    progress: float32
    gait_type: uint8
    foot_raise_height: float32
    position: array[float32, 3]
    body_height: float32
    velocity: array[float32, 3]
    yaw_speed: float32
    range_obstacle: array[float32, 4]
    foot_force: array[int16, 4]
    foot_position_body: array[float32, 12]
    foot_speed_body: array[float32, 12]


class CycloneGo2:
    """Answers every request with success, publishes a picture, stands at (1.5, -0.5) turned left by YAW."""

    def __init__(self, domain: int, jpeg: bytes) -> None:
        self.requests: list[tuple[str, Request]] = []
        self._jpeg = list(jpeg)
        participant = DomainParticipant(domain)
        self._readers = {
            name: DataReader(participant, Topic(participant, f"rt/api/{name}/request", Request))
            for name in SERVICES
        }
        self._writers = {
            name: DataWriter(participant, Topic(participant, f"rt/api/{name}/response", Response))
            for name in SERVICES
        }
        self._states = DataWriter(participant, Topic(participant, "rt/sportmodestate", SportModeState))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stopping.wait(0.01):
            for name, reader in self._readers.items():
                for request in reader.take(16):
                    self._answer(name, request)
            self._states.write(_state(time.monotonic()))

    def _answer(self, name: str, request: Any) -> None:
        if not isinstance(request, Request):
            return  # an invalid sample: a writer has gone
        self.requests.append((name, request))
        header = ResponseHeader(request.header.identity, Status(0))
        picture = self._jpeg if name == "videohub" else []
        self._writers[name].write(Response(header, '{"enable": false}', picture))


def _state(time_s: float) -> SportModeState:
    zeros = [0.0] * 3
    quaternion = [math.cos(YAW / 2.0), 0.0, 0.0, math.sin(YAW / 2.0)]
    return SportModeState(
        stamp=TimeSpec(int(time_s), int(time_s % 1.0 * 1e9)),
        error_code=0,
        imu_state=ImuState(quaternion, zeros, zeros, [0.0, 0.0, YAW], 30),
        mode=1,
        progress=0.0,
        gait_type=0,
        foot_raise_height=0.09,
        position=[1.5, -0.5, 0.32],
        body_height=0.32,
        velocity=zeros,
        yaw_speed=0.0,
        range_obstacle=[0.0] * 4,
        foot_force=[0] * 4,
        foot_position_body=[0.0] * 12,
        foot_speed_body=[0.0] * 12,
    )
