"""The tree of coordinate frames: what is composed, interpolated, or refused with a reason."""

import math

import numpy as np
import pytest

from outrider.core.errors import TransformError
from outrider.navigation.sensing.transforms import StampedTransform, TransformTree


def put(tree, parent, child, x=0.0, yaw=0.0, stamp_s=0.0, static=True, quaternion=None):
    quaternion = quaternion or (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
    tree.put(StampedTransform(parent, child, (x, 0.0, 0.0), quaternion, stamp_s, static))


def at(tree, target, source, stamp_s=0.0, point=(1.0, 0.0)):
    return tree.lookup(target, source, stamp_s) @ (*point, 0.0, 1.0)


def test_transforms_compose_up_and_down_the_tree_whatever_slashes_the_names_begin_with():
    tree = TransformTree()
    put(tree, "base_link", "mast", x=0.2, yaw=math.pi / 2)
    put(tree, "/mast", "/laser", x=0.5)
    put(tree, "base_link", "camera", x=1.0)
    assert at(tree, "base_link", "/laser")[:2] == pytest.approx((0.2, 1.5))
    assert at(tree, "camera", "laser")[:2] == pytest.approx((-0.8, 1.5))
    assert tree.lookup("laser", "laser") == pytest.approx(np.eye(4))


def test_frames_move_where_one_transform_between_them_does():
    tree = TransformTree()
    put(tree, "odom", "base_link", stamp_s=1.0, static=False)
    put(tree, "base_link", "laser")
    assert tree.moves("odom", "laser") and tree.moves("laser", "odom")
    assert not tree.moves("base_link", "laser") and not tree.moves("laser", "laser")
    with pytest.raises(TransformError, match="no transform"):
        tree.moves("base_link", "nowhere")


def test_a_moving_transform_is_interpolated_and_bounded_in_time():
    tree = TransformTree()
    put(tree, "base_link", "laser", x=0.0, yaw=0.0, stamp_s=10.0, static=False)
    put(tree, "base_link", "laser", x=1.0, yaw=math.pi / 2, stamp_s=10.2, static=False)
    half = math.sqrt(0.5)
    assert at(tree, "base_link", "laser", 10.1)[:2] == pytest.approx((0.5 + half, half))
    for stamp_s in (10.2, 10.35):
        assert at(tree, "base_link", "laser", stamp_s)[:2] == pytest.approx((1.0, 1.0))
    for stamp_s in (10.5, 9.5):
        with pytest.raises(TransformError, match="off the time"):
            tree.lookup("base_link", "laser", stamp_s)
    with pytest.raises(TransformError, match="not stamped"):
        tree.lookup("base_link", "laser")
    put(tree, "base_link", "laser", stamp_s=3.0, static=False)  # a clock that was set back
    assert at(tree, "base_link", "laser", 3.0)[:2] == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize(
    "quaternion", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 2.0), (math.nan, 0.0, 0.0, 1.0)]
)
def test_what_is_no_rotation_is_no_transform(quaternion):
    tree = TransformTree()
    put(tree, "base_link", "laser", quaternion=quaternion)
    with pytest.raises(TransformError, match="no rotation"):
        tree.lookup("base_link", "laser")


def test_frames_that_nothing_connects_are_named_with_what_to_start():
    tree = TransformTree()
    put(tree, "map", "laser")
    put(tree, "odom", "base_link")
    with pytest.raises(TransformError, match="--frame-id base_link --child-frame-id laser"):
        tree.lookup("base_link", "laser")


def test_frames_in_a_ring_end_a_lookup_too():
    tree = TransformTree()
    put(tree, "a", "b")
    put(tree, "b", "a")
    with pytest.raises(TransformError):
        tree.lookup("base_link", "a")
