"""Columns as working-set methods use them: sums without caching, parts of columns, compaction."""

from __future__ import annotations

import numpy as np
import pytest

from qpsvm import RBF
from qpsvm.solvers.working_set.gram_block import compact


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("binary", [False, True])
def test_columns_that_are_summed_and_not_cached(kind, binary, rng):
    X = rng.standard_normal((2500, 9))
    X = (X > 0.7 if binary else X).astype(kind)
    kernel = RBF(X, 0.2)
    for n in (3, 300):  # small blocks are numpy's
        columns, weights = rng.permutation(2500)[:n], rng.standard_normal(n)
        out = np.ones(2500)
        kernel.add(columns, weights, out)
        exact = 1.0 + weights @ kernel.block(columns, None, np.float64)
        np.testing.assert_allclose(out, exact, atol=2e-5 if kernel.dtype == np.float32 else 1e-12)
        size = np.sum(np.abs(weights))
        error = size * (kernel.column_error + kernel.sum_error) + 1e-12
        assert np.all(np.abs(out - exact) <= error)
        rows, store = rng.permutation(2500)[:1000], np.zeros((n, 1200), kernel.dtype)
        kernel.fill(columns, store, np.arange(n), rows)
        np.testing.assert_allclose(store[:, :1000], kernel.block(columns, rows), rtol=1e-5)
        assert not store[:, 1000:].any()


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_weights_beyond_float32_are_summed(size, rng):
    X = rng.standard_normal((2500, 9)).astype(np.float32)
    kernel, columns = RBF(X, 0.2).low_precision(), rng.permutation(2500)[:300]
    weights, out = size * rng.standard_normal(300), np.zeros(2500)
    kernel.add(columns, weights, out)
    exact = weights @ kernel.block(columns, None, np.float64)
    np.testing.assert_allclose(out / size, exact / size, atol=2e-4)


@pytest.mark.parametrize("kind", [np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 31, 64, 150, 900])
def test_a_block_is_compacted_in_place(kind, n, rng):
    K = rng.integers(0, 65536, (n + 10, n + 10)).astype(kind)
    anyone, half = rng.random(n), np.arange(n) < n // 2
    for wanted in (
        anyone < 0.6,
        anyone < 0.05,
        anyone < 0.98,
        half,
        ~half,
        anyone < 2.0,
        anyone < 0.0,
    ):
        block = K.copy()
        order = compact(block, wanted)
        places = np.flatnonzero(wanted)
        stay = places[places < len(order)]  # the others come from the end, in their order
        assert np.array_equal(order[stay], stay)
        assert np.array_equal(np.delete(order, stay), places[len(stay) :])
        np.testing.assert_array_equal(block[: len(order), : len(order)], K[np.ix_(order, order)])
        np.testing.assert_array_equal(block[n:], K[n:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    ["shape.HAS_MASKED_EXPAND = False", "shape.VECTOR_LANES = 8; shape.HAS_MASKED_EXPAND = False"],
)
def test_compaction_on_lesser_processors(change, fresh_process, tmp_path):
    code = (
        f"import qpsvm.numerics.vector_shape as shape; {change}\n"
        "import numpy as np; import tests.solvers.working_set.test_gram_block as t\n"
        "rng = np.random.default_rng(1)\n"
        "t.test_a_block_is_compacted_in_place(np.uint16, 150, rng)\n"
        "t.test_a_block_is_compacted_in_place(np.float64, 31, rng)\n"
        "print('right')"
    )
    assert fresh_process(code, cache=tmp_path).strip() == "right"


def test_compaction_without_the_compiler(fresh_process):
    code = (
        "import numpy as np; import tests.solvers.working_set.test_gram_block as t\n"
        "rng = np.random.default_rng(1)\n"
        "for kind in (np.uint16, np.float32): t.test_a_block_is_compacted_in_place(kind, 150, rng)\n"
        "print('right')"
    )
    assert fresh_process(code, NUMBA_DISABLE_JIT="1").strip() == "right"
