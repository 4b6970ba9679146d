"""Points on a grid: exact squared distances whatever the processor, and what is near a grid."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy.spatial.distance import cdist

from qpsvm import RBF, HingeDual, solve
from qpsvm.gram.engine import tiles
from qpsvm.gram.engine.formula import Evaluator, Exponential, gaussian
from qpsvm.gram.engine.kernel_rows import kernel_rows
from qpsvm.gram.kernels import rbf
from qpsvm.gram.storage import byte_grid as grid
from qpsvm.gram.storage.byte_grid import MIN_GRID_POINTS, ByteGrid, grid_points, near_grid
from qpsvm.gram.storage.integer import integer_points
from qpsvm.numerics import simd as lanes
from qpsvm.numerics.vector_shape import GROUP_ROWS

M = MIN_GRID_POINTS + 100


def grid_of(X):
    octets = grid.zero_octets(*X.shape)
    octets[:, : X.shape[1]] = X
    return grid_points(octets, X.shape[1])


def extremes(rng, d, m=70):
    """Return whole coordinates from 0 to 255; the first points are as far apart as can be."""
    X = rng.integers(0, 256, (m, d))
    X[0], X[1], X[2, ::2] = 0, 255, 255
    return X


@pytest.mark.parametrize("d", [1, 3, 4, 5, 16, 17, 780])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_exact(rng, d, dtype):
    X = extremes(rng, d)
    square = np.square(X[:11, None] - X[None]).sum(axis=2)
    gamma, out = 2.0 / np.median(square), np.empty((11, len(X)), dtype)
    formula = gaussian(gamma)
    points = grid_of(X)
    evaluator = Evaluator(points, np.zeros(len(X), dtype), formula.factor, formula.map)
    tiles.fill(evaluator, np.arange(11), None, out, np.arange(11))
    exact, eps = np.exp(-gamma * square), float(np.finfo(dtype).eps)
    assert np.all(out[square == 0] == 1.0)
    np.testing.assert_allclose(out, exact, rtol=0, atol=6 * eps)
    np.testing.assert_allclose(
        out, exact, rtol=eps * (8.0 + 4.0 * gamma * np.max(square)), atol=1e-37
    )
    assert np.array_equal(points.squared_norms(), np.square(X).sum(axis=1))
    center = X.mean()
    np.testing.assert_allclose(
        points.distances_to_center(), np.square(X - center).sum(axis=1), rtol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "rows", "vectors"), [(16, 8, 2), (8, 4, 3), (8, 4, 1)])
def test_values_on_lesser_processors(lanes, rows, vectors, fresh_process):
    """Without products of bytes, and without vectors of 512 bits or of 256."""
    code = (
        "import qpsvm.numerics.vector_shape as shape\n"
        f"shape.HAS_BYTE_DOT, shape.VECTOR_LANES = False, {lanes}\n"
        f"shape.GROUP_ROWS, shape.PANEL_VECTORS = {rows}, {vectors}\n"
        f"shape.HAS_AVX512 = shape.HAS_AVX512 and {lanes} == 16\n"
        "import numpy as np; import tests.gram.storage.test_byte_grid as t\n"
        "for kind in ('grid', 'grid in float64', 'float32', 'float64'):\n"
        "    t.values_are_right(np.random.default_rng(1), kind)\n"
        "print('right')"
    )
    assert fresh_process(code).strip() == "right"


def values_are_right(rng, kind):
    X, gamma = extremes(rng, 23, 8 + lanes.TILE_POINTS), 1e-5
    square = np.square(X[:8, None] - X[None, 8:]).sum(axis=2)
    dtype, d = np.float32 if kind in ("grid", "float32") else np.float64, X.shape[1]
    factor = dtype(-gamma / np.log(2.0))
    if kind.startswith("grid"):
        points = grid_of(X)
        few, tile = points.signed()[:8], points.words[8:].T
        a, norm = points.squares[:8], points.terms()[8:]
    else:
        few, tile = X[:8].astype(dtype), X[8:].T.astype(dtype)
        norms = np.square(X).sum(axis=1) * factor
        a, norm = norms[:8].astype(dtype), norms[8:].astype(dtype)
        factor = -2 * factor
    width = lanes.PANEL_VECTORS * lanes.VECTOR_LANES * 4 // few.itemsize
    tile = np.ascontiguousarray(np.split(tile, lanes.TILE_POINTS // width, axis=1))
    kernel_map, K = Exponential(), np.zeros((8, lanes.TILE_POINTS), dtype)

    @njit
    def rows(few, i, tile, a, norm, factor, K):
        for panel in range(len(tile)):
            kernel_rows(few, i, tile, panel, a, norm, factor, kernel_map, K)

    for i in range(0, 8, GROUP_ROWS):
        rows(few, i, tile, a, norm, factor, K[i : i + GROUP_ROWS])
    bound = (60.0 if kind == "float32" else 4.0) * d * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(K, np.exp(-gamma * square), rtol=0, atol=bound)


def test_values_without_the_compiler(fresh_process):
    code = (
        "import numpy as np; import tests.gram.storage.test_byte_grid as t\n"
        "rng = np.random.default_rng(1)\n"
        "for d in (3, 16): t.test_distances_are_exact(rng, d, np.float32)\n"
        "print('right')"
    )
    assert fresh_process(code, NUMBA_DISABLE_JIT="1").strip() == "right"


def six_digits(rng, m=M, d=16, n=15):
    whole = rng.integers(0, n + 1, (m, d))
    return np.array([f"{x:.6g}" for x in (2.0 * whole / n - 1.0).ravel()], float).reshape(m, d)


def test_what_is_near_a_grid(rng):
    X = six_digits(rng)
    found = near_grid(X)
    whole = np.rint((X + 1.0) * 7.5)
    assert abs(found.step - 2.0 / 15.0) < 1e-15 and 3e-7 < found.max_offset < 4e-7
    assert np.array_equal(found.points.words, grid_of(whole).words)
    assert near_grid(X.astype(np.float32)).points.shape == X.shape
    for x in (0.01, -1.1, 30.0):  # in the last point: found at the end only
        other = X.copy()
        other[-1, -1] = x
        assert near_grid(other) is None
    other[-1, -1] = 2.0 / 15.0 * 30 - 1.0
    assert near_grid(other).points.words.view(np.uint8).max() == 30
    assert near_grid(rng.standard_normal((M, 16))) is None
    assert near_grid(rng.integers(0, 300, (M, 16)).astype(float)) is None
    assert near_grid(np.full((M, 16), 3.0)) is None
    assert near_grid(np.where(X > 0, 1e308, -1e308)) is None


@pytest.mark.parametrize("gamma", [0.01, 1.0, 30.0])
def test_bounds_of_columns_near_a_grid(rng, gamma):
    X = six_digits(rng)
    narrow = RBF(X, gamma).low_precision()
    assert isinstance(narrow.X, ByteGrid) == (gamma < 50) and narrow.dtype == np.float32
    columns = rng.permutation(M)[:300]
    X[7] = X[columns[0]]
    narrow = RBF(X, gamma).low_precision()
    for gram, points in ((narrow, X), (narrow.take(np.arange(400)), X[:400])):
        some = columns[columns < gram.m]
        out = np.zeros((len(some), gram.m), np.float32)
        gram.fill(some, out, np.arange(len(some)))
        exact = np.exp(-gamma * cdist(points[some], points, "sqeuclidean"))
        error, known = np.abs(out - exact), gram.relative_error
        r, c = known.rows(), known.columns(np.arange(gram.m))
        assert np.all(error <= gram.column_error)
        assert np.all((error <= c[some][:, None] * r * out + 2.0**-125)[c[some] > 0])
    assert np.max(narrow.column_error) < 3e-5


def test_far_from_a_grid_for_the_kernel(rng):
    """Points stay where they are where the kernel is so narrow that six digits matter."""
    assert not isinstance(RBF(six_digits(rng), 200.0).low_precision().X, ByteGrid)


@pytest.mark.parametrize(("divisor", "rounded"), [(1, False), (16, False), (255, True)])
def test_levels_of_grey(rng, divisor, rounded):
    """Columns, products, restrictions and predictions of multiples that fit into bytes."""
    X = np.where(rng.random((M, 60)) < 0.5, rng.integers(0, 256, (M, 60)), 0) / divisor
    X[0, 0] = 1 / divisor
    kernel = RBF(X, 2e-2 * (divisor / 255) ** 2)
    unit = kernel._unit
    assert (
        isinstance(unit.points, ByteGrid)
        and unit.rounded == rounded
        and unit.quantum == 1 / divisor
    )
    exact = np.exp(-kernel.gamma * cdist(X, X, "sqeuclidean"))
    columns, rows = rng.permutation(M)[:200], rng.permutation(M)[:400]
    near = {"rtol": 0, "atol": kernel.error + 1e-14}
    np.testing.assert_allclose(kernel.block(columns), exact[columns], **near)
    np.testing.assert_allclose(kernel.block(columns, rows), exact[np.ix_(columns, rows)], **near)
    x = np.where(rng.random(M) < 0.5, rng.standard_normal(M), 0.0)
    size = np.sum(np.abs(x))
    for gram, at in ((kernel, slice(None)), (kernel.take(rows), rows)):
        product = exact[at][:, at] @ x[at]
        np.testing.assert_allclose(gram.dot(x[at]), product, rtol=0, atol=near["atol"] * size)
    narrow = kernel.low_precision()
    assert isinstance(narrow.X, ByteGrid)
    np.testing.assert_allclose(narrow.block(columns), exact[columns], rtol=2e-6, atol=1e-37)
    support, new = np.flatnonzero(x), np.round(255 * rng.random((300, 60))) / divisor
    for given in (new, sp.csr_matrix(new), new + 1e-7, 2.0 * new):  # on the grid, off it, beyond it
        expected = kernel.cross(given, support) @ x[support]
        values = kernel.combine(given, support, x[support])
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * size)


def test_what_fits_into_bytes(rng):
    X = rng.integers(0, 256, (M, 10)).astype(float)
    X[0, 0] = 1.0
    assert isinstance(integer_points(X).points, ByteGrid)
    assert not isinstance(integer_points(X[: MIN_GRID_POINTS - 1]).points, ByteGrid)
    for x in (256.0, -1.0):
        X[-1, -1] = x
        assert not isinstance(integer_points(X).points, ByteGrid)


def test_a_machine_near_a_grid(rng, monkeypatch):
    """The certificate is that of the points as they are."""
    X = six_digits(rng, d=8)
    y = np.where(
        np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(M) > 0, 1.0, -1
    )
    problem = HingeDual(RBF(X, 0.7), y, C=10.0)
    near = solve(problem, method="decomposition", tol=1e-7).certificate
    monkeypatch.setattr(rbf, "near_grid", lambda X: None)
    exact = solve(problem, method="decomposition", tol=1e-9).certificate
    assert near.lower <= exact.upper and exact.lower <= near.upper
    assert near.upper - near.lower <= 1e-7 * abs(near.upper)
