"""Styles: what is told apart by color is told apart by something else too."""

from __future__ import annotations

import colorsys
from itertools import pairwise

import numpy as np
import pytest

from qpsvm.plot.search import LUMINANCE_WEIGHTS
from qpsvm.plot.styles import (
    CLASS_COLORS,
    CLASS_HATCHES,
    CLASS_MARKERS,
    SEQUENTIAL_MAP,
    class_style,
    curve_style,
)

pytest.importorskip("matplotlib")
from matplotlib import colormaps
from matplotlib.colors import to_rgb


def test_styles_of_the_first_curves_differ_and_neighbors_differ_in_everything():
    looks = [curve_style(order) for order in range(84)]
    assert len({tuple(sorted(look.items())) for look in looks}) == 84
    for one, other in pairwise(looks):
        assert all(one[key] != other[key] for key in ("color", "ls", "marker"))


def test_classes_differ_in_color_marker_and_hatch():
    for settings in (CLASS_COLORS, CLASS_MARKERS, CLASS_HATCHES):
        assert len(set(settings)) == len(settings) == 8
    assert class_style(9) == class_style(1)


def test_the_first_three_classes_differ_in_lightness():
    light = sorted(colorsys.rgb_to_hls(*to_rgb(color))[1] for color in CLASS_COLORS[:3])
    luminance = sorted(float(np.dot(to_rgb(c), LUMINANCE_WEIGHTS)) for c in CLASS_COLORS[:3])
    assert light[0] > 0.1 and np.min(np.diff(luminance)) > 0.1


def test_the_color_map_is_monotone_in_luminance():
    colors = colormaps[SEQUENTIAL_MAP](np.linspace(0.0, 1.0, 64))[:, :3]
    assert np.all(np.diff(colors @ LUMINANCE_WEIGHTS) > 0)
