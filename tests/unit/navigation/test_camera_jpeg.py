"""JPEGs of camera pictures: size, colours, and arrays that are refused."""

import cv2
import numpy as np
import pytest

from outrider.core.errors import FrameError
from outrider.core.sensors.jpeg import jpeg_size
from outrider.navigation.sensing.camera_jpeg import model_jpeg


def test_the_model_jpeg_has_the_models_size_and_keeps_red_red():
    red = np.zeros((280, 504, 3), np.uint8)
    red[:, :, 0] = 200
    decoded = cv2.imdecode(np.frombuffer(model_jpeg(red), np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (140, 252, 3)
    assert decoded[70, 126, 2] > 190 and decoded[70, 126, 0] < 10
    assert jpeg_size(model_jpeg(red)) == (252, 140)


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(FrameError, match="uint8"):
        model_jpeg(array)
