# SPDX-License-Identifier: Apache-2.0
"""Converts ROS messages to core values and back."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, Quaternion, TransformStamped, Twist
from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, LaserScan
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from outrider.core.sensors.camera import CAMERA_FORWARD_M, CAMERA_HEIGHT_M, CameraModel
from outrider.core.sensors.lidar import LIDAR_FRAME, LIDAR_HEIGHT_M
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.sensing.odometry_check import OdometrySample
from outrider.navigation.sensing.scan_check import ScanSample
from outrider.navigation.sensing.transforms import StampedTransform
from outrider.nodes.common.picture_encodings import RawPicture, decode_compressed, decode_raw

BASE_HEIGHT_M = 0.30
# Standard deviations of x, y, z, roll, pitch and yaw after a walk of some metres on a level floor.
POSE_STDDEV = (0.05, 0.05, 0.02, 0.05, 0.05, 0.05)
# Standard deviations of their rates. The body's vertical speed and tilt rates are given as zero.
TWIST_STDDEV = (0.05, 0.05, 0.1, 0.2, 0.2, 0.05)
OPTICAL_ROTATION = (-0.5, 0.5, -0.5, 0.5)


def time_of(seconds: float) -> Time:
    """Returns a stamp from seconds since the epoch of its clock."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def seconds_of(stamp: Time) -> float:
    """Returns a stamp in seconds."""
    return stamp.sec + stamp.nanosec * 1e-9


def header(stamp: Time, frame_id: str) -> Header:
    """Returns a header of a stamp and a frame."""
    return Header(stamp=stamp, frame_id=frame_id)


def quaternion_of(yaw: float) -> Quaternion:
    """Returns the rotation about the vertical by an angle in radians."""
    return Quaternion(z=math.sin(yaw / 2.0), w=math.cos(yaw / 2.0))


def yaw_of(orientation: Quaternion) -> float:
    """Returns the angle about the vertical in radians, -pi to pi."""
    q = orientation
    return math.atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))


def pose_of(pose: Pose) -> Pose2D:
    """Returns a pose in the plane."""
    return Pose2D(pose.position.x, pose.position.y, yaw_of(pose.orientation))


def pose_message(pose: Pose2D) -> Pose:
    """Returns a pose in the plane as a message."""
    message = Pose(orientation=quaternion_of(pose.yaw))
    message.position.x, message.position.y = pose.x, pose.y
    return message


def velocity_of(twist: Twist) -> Velocity:
    """Returns a velocity in the plane, in m/s and rad/s."""
    return Velocity(twist.linear.x, twist.linear.y, twist.angular.z)


def twist_message(velocity: Velocity) -> Twist:
    """Returns a velocity as a message."""
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = velocity.vx, velocity.vy, velocity.wz
    return message


def odometry_sample(message: OdometryMsg) -> OdometrySample:
    """Returns odometry as received; `OdometryCheck` decides whether it is valid."""
    position, q = message.pose.pose.position, message.pose.pose.orientation
    return OdometrySample(
        (position.x, position.y, position.z),
        (q.x, q.y, q.z, q.w),
        velocity_of(message.twist.twist),
        message.header.frame_id,
        message.child_frame_id,
        seconds_of(message.header.stamp),
    )


def odometry_message(odometry: Odometry, stamp: Time, prefix: str = "") -> OdometryMsg:
    """Returns odometry of base_link as a message, at its height in tf. `prefix` precedes its frames."""
    message = OdometryMsg(header=header(stamp, f"{prefix}odom"), child_frame_id=f"{prefix}base_link")
    message.pose.pose = pose_message(odometry.pose)
    message.pose.pose.position.z = BASE_HEIGHT_M
    message.pose.covariance = covariance(POSE_STDDEV)
    message.twist.twist = twist_message(odometry.velocity)
    message.twist.covariance = covariance(TWIST_STDDEV)
    return message


def covariance(stddev: tuple[float, ...]) -> list[float]:
    """Returns the covariance matrix of independent errors, row by row."""
    size = len(stddev)
    return [stddev[row] ** 2 if row == column else 0.0 for row in range(size) for column in range(size)]


def scan_sample(message: LaserScan) -> ScanSample:
    """Returns a scan as received; `ScanCheck` decides whether it is valid."""
    return ScanSample(
        message.ranges,
        message.angle_min,
        message.angle_max,
        message.angle_increment,
        message.range_min,
        message.range_max,
        message.header.frame_id,
        seconds_of(message.header.stamp),
    )


def stamped_transforms(message: TFMessage, static: bool) -> list[StampedTransform]:
    """Returns the transforms of a message on /tf or, if `static`, on /tf_static."""
    stamped = []
    for edge in message.transforms:
        translation, q = edge.transform.translation, edge.transform.rotation
        where = (translation.x, translation.y, translation.z), (q.x, q.y, q.z, q.w)
        stamp_s = seconds_of(edge.header.stamp)
        stamped.append(StampedTransform(edge.header.frame_id, edge.child_frame_id, *where, stamp_s, static))
    return stamped


def scan_message(scan: RangeScan, stamp: Time, range_max_m: float, frame_id: str = "base_link") -> LaserScan:
    """Returns a scan as a message, in metres and radians."""
    return LaserScan(
        header=header(stamp, frame_id),
        angle_min=scan.angle_min,
        angle_max=scan.angle_min + scan.angle_step * (len(scan.ranges) - 1),
        angle_increment=scan.angle_step,
        range_min=0.05,
        range_max=range_max_m,
        ranges=array("f", scan.ranges),
    )


def image_message(rgb: np.ndarray[Any, Any], stamp: Time, frame_id: str) -> Image:
    """Returns uint8 (H, W, 3) RGB as an image message."""
    height, width, _ = rgb.shape
    # An array is stored as it is; bytes would be checked one by one.
    data = array("B", np.ascontiguousarray(rgb).tobytes())
    return Image(
        header=header(stamp, frame_id), height=height, width=width, encoding="rgb8", step=width * 3, data=data
    )


def rgb_of(message: Image | CompressedImage) -> np.ndarray[Any, Any]:
    """Returns a raw or compressed picture as uint8 (H, W, 3) RGB.

    Raises FrameError, with a remedy, if it cannot be read.
    """
    if isinstance(message, CompressedImage):
        return decode_compressed(message.format, bytes(message.data))
    data = np.frombuffer(message.data, dtype=np.uint8)
    size = message.width, message.height, message.step
    return decode_raw(RawPicture(message.encoding, *size, bool(message.is_bigendian), data))


def camera_info_message(camera: CameraModel, stamp: Time, frame_id: str) -> CameraInfo:
    """Returns the message of a pinhole camera without distortion."""
    f, cx, cy = camera.focal_px, camera.width / 2.0, camera.height / 2.0
    return CameraInfo(
        header=header(stamp, frame_id),
        width=camera.width,
        height=camera.height,
        distortion_model="plumb_bob",
        d=[0.0] * 5,
        k=[f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
    )


def lens_of(message: CameraInfo) -> CameraModel | None:
    """Returns the camera of a message as a pinhole; None if it is not calibrated."""
    focal_px = float(message.k[0])
    if not (message.width > 0 and message.height > 0 and 0.0 < focal_px < math.inf):
        return None
    return CameraModel(message.width, message.height, focal_px)


def transform(parent: str, child: str, stamp: Time, pose: Pose2D, height_m: float = 0.0) -> TransformStamped:
    """Returns the transform from a child frame to its parent."""
    message = TransformStamped(header=header(stamp, parent), child_frame_id=child)
    message.transform.translation.x, message.transform.translation.y = pose.x, pose.y
    message.transform.translation.z = height_m
    message.transform.rotation = quaternion_of(pose.yaw)
    return message


def base_transform(pose: Pose2D, stamp: Time, prefix: str = "") -> TransformStamped:
    """Returns odom->base_link for tf, consistent with `odometry_message`."""
    return transform(f"{prefix}odom", f"{prefix}base_link", stamp, pose, BASE_HEIGHT_M)


def map_transform(stamp: Time, prefix: str = "") -> TransformStamped:
    """Returns map->odom for a robot without a map, or whose odometry does not drift."""
    return transform(f"{prefix}map", f"{prefix}odom", stamp, Pose2D(0.0, 0.0, 0.0))


def static_transforms(stamp: Time, prefix: str = "") -> list[TransformStamped]:
    """Returns the camera's transforms on the base. Optical frames look along z (REP-103)."""
    base, camera, optical = (f"{prefix}{n}" for n in ("base_link", "camera_link", "camera_optical_frame"))
    camera_height_m = CAMERA_HEIGHT_M - BASE_HEIGHT_M
    rotated = transform(camera, optical, stamp, Pose2D(0.0, 0.0, 0.0))
    x, y, z, w = OPTICAL_ROTATION
    rotated.transform.rotation = Quaternion(x=x, y=y, z=z, w=w)
    return [transform(base, camera, stamp, Pose2D(CAMERA_FORWARD_M, 0.0, 0.0), camera_height_m), rotated]


def lidar_transform(stamp: Time, prefix: str = "") -> TransformStamped:
    """Returns the transform of the simulated lidar on the base."""
    frames = f"{prefix}base_link", f"{prefix}{LIDAR_FRAME}"
    return transform(*frames, stamp, Pose2D(0.0, 0.0, 0.0), LIDAR_HEIGHT_M - BASE_HEIGHT_M)
