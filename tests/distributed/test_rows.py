"""Sources of chunked rows: Dask arrays and frames, mapped arrays, Parquet and LIBSVM's text."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from qpsvm import RBF, HingeDual, InputError, Linear, solve
from qpsvm.distributed.rows import open_rows


def gathered(rows):
    parts = [rows.rows(k) for k in range(len(rows.chunks))]
    return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])


@pytest.fixture
def opened(cloud, tmp_path):
    """Return a function from the kind of a source to its rows in chunks."""
    X, y = cloud

    def of(kind):
        if kind == "dask array":
            da = pytest.importorskip("dask.array")
            return Linear(da.from_array(X, chunks=(400, 3))).X
        if kind == "dask frame":
            dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
            return Linear(dd.from_pandas(pd.DataFrame(X), npartitions=3)).X
        if kind == "array":
            return open_rows(X, chunk_bytes=10_000)
        if kind == "npy":
            np.save(tmp_path / "points.npy", X)
            return open_rows(tmp_path / "points.npy", chunk_bytes=10_000)
        if kind == "mapped":
            np.save(tmp_path / "points.npy", X)
            return open_rows(np.load(tmp_path / "points.npy", mmap_mode="r"), chunk_bytes=10_000)
        if kind == "parquet":
            pd = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y)
            frame.to_parquet(tmp_path / "points.parquet", row_group_size=200)
            return open_rows(tmp_path / "points.parquet", label="label", chunk_bytes=10_000)
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, y, str(tmp_path / "points.txt"), zero_based=False)
        return open_rows(tmp_path / "points.txt", chunk_bytes=10_000)

    return of


SOURCE_KINDS = ["dask array", "dask frame", "array", "npy", "mapped", "parquet", "text"]


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_the_rows_are_those_of_the_source(opened, cloud, kind):
    rows = opened(kind)
    X, y = cloud
    assert rows.shape == X.shape and len(rows.chunks) > 2
    np.testing.assert_allclose(gathered(rows), X, rtol=1e-14)
    if rows.labels is not None:
        np.testing.assert_array_equal(rows.labels, y)
    for gamma in ("scale", "mean-distance", "auto"):
        assert RBF(rows, gamma=gamma).gamma == pytest.approx(RBF(X, gamma=gamma).gamma)


@pytest.mark.parametrize("kind", ["npy", "parquet", "text"])
def test_a_file_is_solved_as_its_array_is(opened, cloud, kind):
    X, y = cloud
    rows = opened(kind)
    there, here = (solve(HingeDual(RBF(P, gamma=0.3), y), tol=1e-5) for P in (rows, X))
    assert there.converged and there.value == pytest.approx(here.value, rel=2e-5)


def test_a_gather_is_refused(opened):
    rows = opened("array")
    with pytest.raises(InputError, match="gathered"):
        np.asarray(rows)
    with pytest.raises(InputError, match="gathered"):
        rows[0]


def test_float32_stays_float32(cloud):
    X, _ = cloud
    assert Linear(open_rows(X.astype(np.float32))).dtype == np.float32


def test_what_is_wrong_is_named_with_its_chunk(cloud, tmp_path):
    X, y = cloud
    bad = X.copy()
    bad[700, 1] = np.nan
    with pytest.raises(InputError, match=r"chunk 2, from row 624.*1 entries"):
        solve(HingeDual(RBF(open_rows(bad, chunk_bytes=10_000), gamma=1.0), y))
    with pytest.raises(InputError, match="one point a row"):
        open_rows(X[:, 0])
    with pytest.raises(InputError, match="source must be a file"):
        open_rows(tmp_path / "none.npy")
    (tmp_path / "bad.txt").write_text("1 1:0.5\n-1 1:x\n")
    with pytest.raises(InputError, match="line 2"):
        open_rows(tmp_path / "bad.txt")


def test_chunks_of_sparse_rows_are_sized_by_their_entries():
    X = sp.random(1000, 5000, density=0.002, random_state=0, format="csr")
    rows = open_rows(X, chunk_bytes=12 * 10 * 100)
    assert 9 <= len(rows.chunks) <= 11
    np.testing.assert_array_equal(gathered(rows), X.toarray())
