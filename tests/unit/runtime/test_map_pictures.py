"""The ground plan can be drawn for every home, and marks its target."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.runtime.pictures.drawing import HALO, draw_map, fit_view
from outrider.simulation.homes.home import PLACEMENTS, generate_home
from outrider.simulation.homes.vocabulary import COLOUR_RGB, FURNITURE_KINDS, ObjectSpec


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [*FURNITURE_KINDS, "ball"])
def test_every_home_is_drawn_with_its_target_marked(kind: str) -> None:
    for seed, placement in enumerate(PLACEMENTS):
        home = generate_home(seed, ObjectSpec(kind, "" if kind != "ball" else "red"), placement)
        picture = draw_map(fit_view(400, 360, home, [home.start]), home)
        assert np.all(picture == HALO, axis=2).sum() > 20
        shown = {tuple(pixel) for pixel in picture.reshape(-1, 3).tolist()}
        for thing in home.objects:
            if thing.spec.colour:
                red, green, blue = (round(255 * part) for part in COLOUR_RGB[thing.spec.colour])
                assert (blue, green, red) in shown, thing.spec
