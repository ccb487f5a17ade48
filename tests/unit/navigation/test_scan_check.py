"""Which scans count, where their points lie on the base, and the reason for which others are refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from outrider.core.values import Pose2D
from outrider.navigation.clocks import DRIFT
from outrider.navigation.limits import Footprint
from outrider.navigation.sensing.clearance import free_ahead, scan_points
from outrider.navigation.sensing.scan_check import ScanCheck, ScanSample
from outrider.navigation.sensing.transforms import StampedTransform, TransformTree

RAYS = 180
STEP = math.tau / RAYS
UPRIGHT = (0.0, 0.0, 0.0, 1.0)
HALF_TURN = (0.0, 0.0, 1.0, 0.0)
UPSIDE_DOWN = (1.0, 0.0, 0.0, 0.0)
PITCHED_OVER = (0.0, 1.0, 0.0, 0.0)
BODY = Footprint()


def sample(**changes):
    plain = ScanSample(
        np.full(RAYS, 3.0), -math.pi, math.pi - STEP, STEP, 0.05, 8.0, "base_link", stamp_s=100.0
    )
    return replace(plain, **changes)


def check_with(frame="", x=0.0, y=0.0, quaternion=UPRIGHT, static=True, stamp_s=0.0):
    tree = TransformTree()
    if frame:
        tree.put(StampedTransform("base_link", frame, (x, y, 0.1), quaternion, stamp_s, static))
    return ScanCheck(tree, "base_link")


def test_a_scan_of_the_base_itself_needs_no_transform():
    for frame in ("base_link", "/base_link"):
        scan = check_with().take(sample(frame_id=frame), 5.0)
        assert scan.mount == Pose2D(0.0, 0.0, 0.0) and scan.ranges == (3.0,) * RAYS


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"frame_id": "laser"}, "static_transform_publisher --frame-id base_link --child-frame-id laser"),
        ({"frame_id": ""}, "frame_id"),
        ({"frame_id": "/"}, "frame_id"),
        ({"angle_step": 0.0}, "angle_increment"),
        ({"angle_step": math.nan}, "no numbers"),
        ({"angle_min": math.nan}, "no numbers"),
        ({"angle_max": math.inf}, "no numbers"),
        ({"angle_step": -STEP}, "check the lidar's driver"),
        ({"angle_min": math.pi, "angle_max": -math.pi}, "check the lidar's driver"),
        ({"angle_step": math.degrees(STEP)}, "angle_increment"),
        ({"angle_max": 0.0}, "180 ranges where"),
        ({"ranges": np.full(RAYS - 4, 3.0)}, "176 ranges where"),
        ({"ranges": np.array([])}, "no ranges"),
        ({"angle_step": 0.1, "angle_max": -math.pi + 17.9}, "more than a circle"),
        ({"range_max": 0.0}, "range_max"),
        ({"range_max": 0.5}, "range_max"),
        ({"range_max": math.nan}, "range_max"),
        ({"range_min": math.nan}, "no numbers"),
        ({"range_min": 9.0}, "range_min"),
        ({"ranges": np.zeros(RAYS)}, "measures nothing"),
        ({"ranges": np.full(RAYS, math.nan)}, "measures nothing"),
        ({"ranges": np.full(RAYS, -math.inf)}, "measures nothing"),
        ({"ranges": np.full(RAYS, -1.0)}, "measures nothing"),
    ],
)
def test_what_is_no_scan_is_missing_with_the_reason(changes, words):
    check = check_with()
    assert check.take(sample(**changes), 5.0) is None and words in check.fault


def test_lengths_that_drivers_round_and_ranges_without_a_limit_are_taken():
    rounded = sample(
        ranges=[8.0] * 90, angle_min=-3.14, angle_max=3.10, angle_step=0.0698, range_max=math.inf
    )
    closed = sample(angle_max=math.pi)
    for one in (rounded, closed):
        assert check_with().take(one, 5.0) is not None


def test_ranges_leave_by_one_convention():
    ranges = np.full(RAYS, 3.0)
    ranges[:7] = (0.0, math.nan, -math.inf, 0.2, 8.0, 9.0, math.inf)
    scan = check_with().take(sample(ranges=ranges, range_min=0.3), 5.0)
    assert math.isnan(scan.ranges[0]) and math.isnan(scan.ranges[1])
    assert scan.ranges[2:7] == (-math.inf, -math.inf, math.inf, math.inf, math.inf)


@pytest.mark.parametrize(
    "x, y, quaternion, bearing",
    [
        (0.3, 0.0, UPRIGHT, 0.0),
        (0.0, 0.1, HALF_TURN, math.pi),
        (-0.2, 0.0, UPSIDE_DOWN, 0.0),
        (0.1, 0.0, PITCHED_OVER, math.pi),
    ],
)
def test_points_are_where_the_lidar_shows_them_however_it_is_mounted(x, y, quaternion, bearing):
    check = check_with("laser", x, y, quaternion)
    ranges = np.full(RAYS, math.inf)
    ray = round((bearing + math.pi) / STEP) % RAYS
    ranges[ray] = 1.0 - x
    scan = check.take(sample(frame_id="laser", ranges=ranges), 5.0)
    assert scan_points(scan) == pytest.approx(np.array([[1.0, y]]), abs=1e-9)
    assert free_ahead(scan_points(scan), BODY) == pytest.approx(1.0 - 0.35 - 0.12)


def test_upside_down_the_left_is_the_left_for_both_senses_of_the_increment():
    ranges = np.full(RAYS, math.inf)
    ranges[RAYS // 2 - RAYS // 4] = 1.0  # at -90 degrees of the lidar
    mounted = check_with("laser", quaternion=UPSIDE_DOWN)
    scan = mounted.take(sample(frame_id="laser", ranges=ranges), 5.0)
    assert scan_points(scan) == pytest.approx(np.array([[0.0, 1.0]]), abs=1e-9)
    clockwise = sample(ranges=ranges, angle_min=math.pi, angle_max=STEP - math.pi, angle_step=-STEP)
    assert scan_points(check_with().take(clockwise, 5.0)) == pytest.approx(np.array([[0.0, 1.0]]), abs=1e-9)


@pytest.mark.parametrize(
    "x, quaternion, words",
    [
        (0.0, (0.0, math.sin(0.2), 0.0, math.cos(0.2)), "tilted by 23 deg"),
        (300.0, UPRIGHT, "metres"),
        (0.0, (0.5, -0.5, 0.5, -0.5), "tilted"),
    ],
)
def test_a_lidar_that_is_tilted_or_elsewhere_is_refused(x, quaternion, words):
    check = check_with("laser", x, quaternion=quaternion)
    assert check.take(sample(frame_id="laser"), 5.0) is None and words in check.fault


def test_a_moving_transform_that_is_lost_ends_the_scans():
    check = check_with("laser", static=False, stamp_s=100.0)
    assert check.take(sample(frame_id="laser", stamp_s=100.1), 5.0) is not None
    assert check.take(sample(frame_id="laser", stamp_s=100.3), 5.2) is None
    assert "off the time" in check.fault


def test_stamps_that_stand_still_go_back_or_jump_are_refused_and_count_again_after_a_second():
    for stamps, words in (
        ((100.0,) * 8, "stand still"),
        ((100.0, 99.5), "go back"),
        ((100.0, 160.0), "clock jumped"),
    ):
        check = check_with()
        for index, stamp_s in enumerate(stamps):
            check.take(sample(stamp_s=stamp_s), 5.0 + 0.04 * index)
        assert words in check.fault
        first_s = 5.0 + 0.04 * len(stamps)
        for index in range(1, 40):
            last = check.take(sample(stamp_s=stamps[-1] + 0.04 * index), first_s + 0.04 * index)
        assert last is not None and check.fault == ""


def test_a_scan_that_comes_late_is_as_old_as_its_delay():
    check = check_with()
    ages = []
    for index in range(20):
        received_s = 5.0 + 0.04 * index
        delay_s = 0.075 if index >= 10 else 0.0
        scan = check.take(sample(stamp_s=100.0 + 0.04 * index - delay_s), received_s)
        ages.append(received_s - scan.stamp_s if scan else math.inf)
    assert ages[5] == pytest.approx(0.0) and ages[-1] == pytest.approx(0.075, abs=1e-3)


@pytest.mark.lengthy
@pytest.mark.parametrize("delay_s", [0.4, 0.6, 1.3, 3.0])
def test_a_scan_that_comes_late_for_good_never_counts_as_new(delay_s):
    check = check_with()
    for index in range(10):
        check.take(sample(stamp_s=100.0 + 0.04 * index), 5.0 + 0.04 * index)
    for index in range(10, 1500):
        received_s = 5.0 + 0.04 * index + delay_s
        scan = check.take(sample(stamp_s=100.0 + 0.04 * index), received_s)
        assert scan is None or received_s - scan.stamp_s > delay_s - 0.05


def test_a_clock_of_the_lidar_that_is_set_back_a_little_makes_nothing_old_for_longer():
    check = check_with()
    for index in range(10):
        check.take(sample(stamp_s=100.0 + 0.04 * index), 5.0 + 0.04 * index)
    for index in range(10, 60):
        scan = check.take(sample(stamp_s=99.5 + 0.04 * index), 5.0 + 0.04 * index)
    assert 5.0 + 0.04 * 59 - scan.stamp_s < 0.01


class Lidar:
    """Sends scans every 0.1 s."""

    def __init__(self, **changes):
        self.check, self.now_s = check_with(), 5.0
        self.send(10, **changes)

    def send(self, times=1, after_s=0.1, **changes):
        """Send scans; return why the last of them is refused, or an empty text."""
        for _ in range(times):
            self.now_s += after_s
            scan = self.check.take(sample(stamp_s=95.0 + self.now_s, **changes), self.now_s)
        assert (scan is None) == bool(self.check.fault)
        return self.check.fault


def holed(share, value=math.inf, ranges=3.0):
    """Return ranges of which the first `share` have the same value."""
    return np.where(np.arange(RAYS) < share * RAYS, value, ranges)


@pytest.mark.parametrize(
    "changes",
    [
        {"angle_min": 0.0, "angle_max": math.tau - STEP},
        {"angle_min": math.pi, "angle_max": -math.pi + STEP, "angle_step": -STEP},
        {"range_max": 4.0},
        {"angle_min": -math.pi / 2, "angle_max": math.pi / 2 - STEP / 2, "angle_step": STEP / 2},
    ],
)
def test_a_scan_of_another_geometry_is_refused_until_it_is_that_of_the_first_again(changes):
    lidar = Lidar()
    assert "one lidar alone" in lidar.send(**changes)
    assert "one lidar alone" in lidar.send(100, **changes)
    lidar.send(5)
    assert lidar.send(10) == ""


def test_a_restarted_lidar_may_have_another_geometry():
    lidar = Lidar()
    turned = {"angle_min": 0.0, "angle_max": math.tau - STEP}
    assert lidar.send(1, 3.0, **turned) == lidar.send(10, **turned) == ""


@pytest.mark.parametrize("number", [170, 181, 190, 36])
def test_the_number_of_rays_may_vary(number):
    lidar = Lidar()
    step = math.tau / number
    ranges = np.full(number, 3.0)
    assert lidar.send(3, ranges=ranges, angle_step=step, angle_max=math.pi - step) == ""


@pytest.mark.parametrize("share", [1.0, 0.6, 0.33])
def test_surroundings_that_turn_free_at_once_are_a_fault_until_they_are_back(share):
    lidar = Lidar()
    assert "no longer sees what stood around" in lidar.send(2, ranges=holed(share))
    assert "no longer sees" in lidar.send(100, ranges=holed(share))
    lidar.send(5)
    assert lidar.send(10) == ""


@pytest.mark.parametrize(
    "ranges",
    [holed(0.2), holed(0.5, math.nan), holed(1.0, 7.0), holed(0.7, 1.0)],
    ids=["an opened door", "rays that tell nothing", "farther walls", "someone near"],
)
def test_what_may_change_at_once_is_no_fault(ranges):
    assert Lidar().send(2, ranges=ranges) == ""


@pytest.mark.lengthy
def test_a_lidar_that_scatters_its_rays_sees_now_less_and_now_more():
    lidar, rng = Lidar(ranges=holed(0.6)), np.random.default_rng(7)
    for _ in range(2000):
        seen = rng.random(RAYS) < 0.4
        assert lidar.send(ranges=np.where(seen, 3.0, math.inf)) == ""


def test_what_opens_little_by_little_is_no_fault():
    lidar = Lidar()
    for share in np.linspace(0.0, 1.0, 30):
        assert lidar.send(ranges=holed(share)) == ""


def test_one_who_steps_back_on_a_free_field_is_no_fault():
    lidar = Lidar(ranges=holed(0.8))
    assert lidar.send(2, ranges=holed(1.0)) == ""


def test_ranges_in_millimetres_are_refused_and_a_number_for_nothing_found_is_not():
    assert "must be in metres" in Lidar().send(ranges=np.linspace(900.0, 3000.0, RAYS))
    assert Lidar(ranges=np.full(RAYS, 65.535)).check.fault == ""


def test_two_lidars_on_one_topic_are_refused():
    check = check_with("laser")
    check.take(sample(), 5.0)
    assert check.take(sample(frame_id="laser", stamp_s=100.04), 5.04) is None
    assert "let one lidar alone" in check.fault


def test_what_does_not_stamp_counts_from_its_arrival():
    check = check_with()
    for received_s in (5.0, 6.0, 7.0):
        assert check.take(sample(stamp_s=0.0), received_s).stamp_s == received_s


@pytest.mark.parametrize("is_simulated", [False, True])
def test_one_that_overtakes_the_simulated_clock_makes_the_next_no_older(is_simulated):
    check = ScanCheck(TransformTree(), "base_link", is_simulated)
    check.take(sample(stamp_s=10.0), 9.9)
    scan = check.take(sample(stamp_s=10.05), 10.05)
    assert scan.stamp_s == pytest.approx(10.05 if is_simulated else 9.95, abs=DRIFT)


@pytest.mark.parametrize("other", [HALF_TURN, UPSIDE_DOWN, (0.0, 0.0, 0.383, 0.924)])
@pytest.mark.parametrize("static", [True, False], ids=["static", "moving"])
def test_a_lidar_whose_place_in_tf_jumps_is_refused(other, static):
    """As with two publishers of its transform that take turns."""
    tree = TransformTree()
    check = ScanCheck(tree, "base_link")
    scans = []
    for number in range(40):
        stamp_s = 100.0 + 0.1 * number
        quaternion = other if 5 <= number < 25 and number % 2 else UPRIGHT
        tree.put(StampedTransform("base_link", "laser", (0.2, 0.0, 0.1), quaternion, stamp_s, static))
        scans.append(check.take(sample(frame_id="laser", stamp_s=stamp_s), stamp_s))
        assert (scans[-1] is None) == ("let one publisher alone" in check.fault)
    assert all(scans[:5]) and scans[-1] is not None
    assert not any(scans[6:25]), "neither place is believed while they take turns"


@pytest.mark.parametrize("burst", [1, 4])
def test_a_lidar_that_pans_or_sways_with_the_body_is_followed(burst):
    """Its scans arrive one by one, or several at once."""
    tree = TransformTree()
    check = ScanCheck(tree, "base_link")
    for number in range(60):
        stamp_s, yaw = 100.0 + 0.1 * number, 0.29 * number
        received_s = 100.0 + 0.1 * (number // burst + 1) * burst + 0.001 * (number % burst)
        quaternion = (0.0, 0.05, math.sin(yaw / 2), math.cos(yaw / 2))
        tree.put(StampedTransform("base_link", "laser", (0.2, 0.0, 0.1), quaternion, stamp_s))
        assert check.take(sample(frame_id="laser", stamp_s=stamp_s), received_s), check.fault
