"""What a step over a core does in vectors, beside the same in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm.numerics.jit import vectorized
from qpsvm.numerics.vector_shape import VECTOR_LANES
from qpsvm.solvers.working_set import inner_smo_simd as pair_lanes
from qpsvm.solvers.working_set.inner_smo_simd import follow, note, partner

LENGTHS = (VECTOR_LANES, VECTOR_LANES + 1, 3 * VECTOR_LANES - 1, 200)
KINDS = ((np.uint16, np.float32), (np.float32, np.float32), (np.float64, np.float64))


@vectorized
def find_partner(row, side, own, rest, e, low, about):
    return partner(row, side, own, rest, e, low, about)


@vectorized
def take_note(e, stay, rest):
    return note(e, stay, rest)


@vectorized
def take_step(near, far, side, by, e, stay, rest):
    return follow(near, far, side, by, e, stay, rest)


def rows(rng, kind, n):
    """Return two rows of kernel values, longer than what is read of them, and what unit they have."""
    K = rng.random((2, n + 3))
    if kind == np.uint16:
        return np.rint(K * 65535).astype(kind), 1 / 65535
    return K.astype(kind), 1.0


def drawn(rng, n, kind):
    """Return signs, diagonal, what stays, what rests, and e."""
    side = np.where(rng.random(n) < 0.5, 1.0, -1.0).astype(kind)
    own = rng.uniform(1.0, 2.0, n).astype(kind)
    stay, rest = (rng.random((2, n)) < 0.4).astype(np.int8)
    return side, own, stay, rest, rng.standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("row, kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_the_partner_is_one_with_the_greatest_gain(row, kind, n, rng):
    for _ in range(20):
        K, unit = rows(rng, row, n)
        side, own, _, rest, e = drawn(rng, n, kind)
        low = np.float32(np.quantile(e, rng.random()))
        about = tuple(kind(v) for v in (1.5, 2.0 * unit, 0.25 / unit, 1e-12))
        k = find_partner(K[0], side, own, rest, e, low, about)
        best = pair_lanes._plain_partner(K[0], side, own, rest, e, low, about)
        assert (k < 0) == (best < 0)
        if k < 0:
            continue
        curvature = 1.5 + own - 2.0 * unit * side * (K[0, :n] + 0.25 / unit)
        gains = np.where(rest == 0, np.maximum(e - low, 0.0) ** 2 / curvature, 0.0)
        assert rest[k] == 0
        assert gains[k] >= (1.0 - 1e-3) * gains[best]


@pytest.mark.parametrize("n", LENGTHS)
def test_extremes_are_where_they_are_noted(n, rng):
    for _ in range(20):
        _, _, stay, rest, e = drawn(rng, n, np.float32)
        assert take_note(e, stay, rest) == pair_lanes._plain_note(e, stay, rest)
    stay[:], rest[:] = 1, 1
    assert take_note(e, stay, rest) == (-1, -1)
    stay[-1], rest[0] = 0, 0
    assert take_note(e, stay, rest) == (n - 1, 0)
    e[:] = np.nan
    assert take_note(e, stay, rest) == (-1, -1)


@pytest.mark.parametrize("row, kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_a_pair_is_followed_once_everywhere(row, kind, n, rng):
    K, unit = rows(rng, row, n)
    side, _, stay, rest, e = drawn(rng, n, kind)
    for turn, shift in ((-1.0, 0.0), (1.0, 0.5 / unit)):
        by = tuple(kind(v) for v in (0.7 * unit, turn, shift))
        right = e + side * (0.7 * unit * (K[0, :n] + turn * K[1, :n].astype(float) + shift))
        found = take_step(K[0], K[1], side, by, e, stay, rest)
        np.testing.assert_allclose(e, right, rtol=0, atol=2e-6)
        assert found == pair_lanes._plain_note(e, stay, rest)


CHECKS = (
    "import numpy as np; import tests.solvers.working_set.test_inner_smo_simd as t\n"
    "rng = np.random.default_rng(1)\n"
    "for row, kind in t.KINDS:\n"
    "    for n in t.LENGTHS:\n"
    "        t.test_the_partner_is_one_with_the_greatest_gain(row, kind, n, rng)\n"
    "        t.test_a_pair_is_followed_once_everywhere(row, kind, n, rng)\n"
    "        t.test_extremes_are_where_they_are_noted(n, rng)\n"
    "print('right')"
)


def test_on_processors_with_shorter_vectors(fresh_process, tmp_path):
    code = (
        "import qpsvm.numerics.vector_shape as shape; shape.VECTOR_LANES, shape.HAS_AVX512 = 8, False\n"
        + CHECKS
    )
    assert fresh_process(code, cache=tmp_path).strip() == "right"


def test_without_the_compiler(fresh_process):
    assert fresh_process(CHECKS, NUMBA_DISABLE_JIT="1").strip() == "right"
