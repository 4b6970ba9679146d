"""Rows of files, opened in chunks: memory-mapped arrays, Parquet and LIBSVM's text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from qpsvm.data import load_libsvm
from qpsvm.errors import InputError, check_number
from qpsvm.gram.storage.chunked import ChunkedPoints, precision_of

CHUNK_BYTES = 1 << 25
"""Default bytes of the rows that are loaded at a time, dense ones counted in float64: 32 MB."""

ENTRY_BYTES = 12
"""Bytes of a stored entry of a CSR array, its index included."""

COLUMN_BYTES = 1 << 23
"""Bytes of the columns of a Parquet file that are in memory at a time: 8 MB."""

INTERLEAVED_ROWS = 2048
"""Number of rows of a few columns that are written at a time: they stay in the cache."""


@dataclass(frozen=True)
class MappedChunk:
    """Rows of an array in a file of numpy, which a worker maps into its memory."""

    path: str
    start: int
    stop: int

    def load(self) -> NDArray[Any]:
        """Return a copy of the rows."""
        return np.array(np.load(self.path, mmap_mode="r")[self.start : self.stop])


@dataclass(frozen=True)
class ArrayChunk:
    """Rows of an array in memory, or of a memory-mapped one."""

    array: Any
    start: int
    stop: int

    def load(self) -> Any:
        """Return the rows."""
        return self.array[self.start : self.stop]


@dataclass(frozen=True)
class ParquetChunk:
    """Row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    n_rows: int
    dtype: np.dtype[Any]

    def load(self) -> NDArray[Any]:
        """Return the columns as an array; few of them are in memory beside it at a time."""
        import pyarrow.parquet as parquet

        out = np.empty((self.n_rows, len(self.columns)), self.dtype)
        at_once = max(1, COLUMN_BYTES // (8 * self.n_rows))
        with parquet.ParquetFile(self.path) as file:
            for j in range(0, len(self.columns), at_once):
                names = list(self.columns[j : j + at_once])
                table = file.read_row_groups(list(self.groups), columns=names, use_threads=False)
                _interleave([table[name].to_numpy() for name in names], out[:, j : j + at_once])
        return out


def _interleave(columns: list[NDArray[Any]], out: NDArray[Any]) -> None:
    """Write columns into an array that is stored by rows, some rows at a time."""
    for start in range(0, len(out), INTERLEAVED_ROWS):
        at = slice(start, start + INTERLEAVED_ROWS)
        for j, column in enumerate(columns):
            out[at, j] = column[at]


@dataclass(frozen=True)
class TextChunk:
    """Lines of a file in LIBSVM's format."""

    path: str
    offset: int
    n_bytes: int
    n_features: int

    def load(self) -> Any:
        """Return the points as CSR."""
        return self.parsed()[0]

    def parsed(self) -> tuple[Any, NDArray[np.float64]]:
        """Return points and labels."""
        from io import BytesIO

        from sklearn.datasets import load_svmlight_file

        with open(self.path, "rb") as file:
            file.seek(self.offset)
            lines = BytesIO(file.read(self.n_bytes))
        X, y = load_svmlight_file(lines, n_features=self.n_features, zero_based=False)
        return X, np.asarray(y, dtype=np.float64)


def open_rows(
    source: Any, label: str | None = None, *, chunk_bytes: int = CHUNK_BYTES
) -> ChunkedPoints:
    """Open rows that are read chunk by chunk, wherever their shard is.

    Parameters
    ----------
    source : str, Path or array
        A file ``.npy``, ``.parquet``, or in LIBSVM's format (uncompressed), or an array such as a
        memory-mapped one. Workers of a cluster open the same path.
    label : str, optional
        Column of a Parquet file that holds the labels.
    chunk_bytes : int
        Bytes of rows that are loaded at a time.

    Returns
    -------
    ChunkedPoints
        It takes the place of points, as in ``Linear(rows)``; `labels` has those of the file.

    Raises
    ------
    InputError
        If the file or an argument is malformed.
    ImportError
        If pyarrow is missing, which reads Parquet.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import RBF
    >>> from qpsvm.distributed.rows import open_rows
    >>> K = RBF(open_rows(np.eye(4), chunk_bytes=64), gamma=1.0)
    >>> K.m, len(K.X.chunks)
    (4, 2)
    """
    size = int(check_number("chunk_bytes", chunk_bytes, low=1, integer=True))
    if hasattr(source, "shape"):
        return _of_array(source, lambda start, stop: ArrayChunk(source, start, stop), size)
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise InputError(f"source must be a file or an array; got {str(source)!r}")
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r")
        return _of_array(array, lambda start, stop: MappedChunk(str(path), start, stop), size)
    if path.suffix in (".parquet", ".pq"):
        return _of_parquet(path, label, size)
    return _of_text(path, size)


def _of_array(array: Any, chunk: Any, size: int) -> ChunkedPoints:
    """Return the chunks of an array of two dimensions."""
    if len(array.shape) != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise InputError(
            f"source must be an array of numbers, one point a row; got shape {array.shape}, "
            f"dtype {array.dtype}"
        )
    m, d = array.shape
    row_bytes = max(1, ENTRY_BYTES * array.nnz // m) if sp.issparse(array) else 8 * d
    width = max(1, size // row_bytes)
    starts = list(range(0, m, width))
    chunks = tuple(chunk(start, min(start + width, m)) for start in starts)
    sizes = tuple(min(width, m - start) for start in starts)
    return ChunkedPoints(chunks, sizes, d, precision_of(array.dtype))


def _of_parquet(path: Path, label: str | None, size: int) -> ChunkedPoints:
    """Return the chunks of a Parquet file, each of some of its row groups."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ImportError('Parquet files are read by pyarrow: pip install "qpsvm[dask]"') from None
    file = parquet.ParquetFile(path)
    names = tuple(name for name in file.schema_arrow.names if name != label)
    if label is not None and label not in file.schema_arrow.names:
        raise InputError(f"label must be one of the columns {list(names)}; got {label!r}")
    if not names or not file.metadata.num_rows:
        raise InputError(f"source must hold at least one point and one feature; got {path}")
    kinds = {np.dtype(file.schema_arrow.field(name).type.to_pandas_dtype()) for name in names}
    dtype = np.dtype(np.float32 if all(k == np.float32 for k in kinds) else np.float64)
    chunks, sizes, groups, n = [], [], [], 0
    for g in range(file.num_row_groups):
        groups.append(g)
        n += file.metadata.row_group(g).num_rows
        if n * len(names) * 8 >= size or g == file.num_row_groups - 1:
            chunks.append(ParquetChunk(str(path), tuple(groups), names, n, dtype))
            sizes.append(n)
            groups, n = [], 0
    labels = None
    if label is not None:
        labels = file.read(columns=[label])[label].to_numpy().astype(np.float64)
    return ChunkedPoints(tuple(chunks), tuple(sizes), len(names), dtype, labels)


def _of_text(path: Path, size: int) -> ChunkedPoints:
    """Return the chunks of a file in LIBSVM's format, after one pass that counts and checks."""
    places, n_features = [], 0
    with open(path, "rb") as file:
        while True:
            offset = file.tell()
            lines = file.read(size) + file.readline()
            if not lines:
                break
            places.append((offset, len(lines)))
    labels, sizes = [], []
    largest = np.iinfo(np.int32).max - 1
    for offset, n_bytes in places:
        try:
            X, y = TextChunk(str(path), offset, n_bytes, largest).parsed()
        except ValueError:
            load_libsvm(path)  # names the line that is wrong
            raise
        n_features = max(n_features, int(X.indices.max(initial=-1)) + 1)
        labels.append(y)
        sizes.append(len(y))
    kept = [k for k, n in enumerate(sizes) if n]
    if not kept or not n_features:
        raise InputError(f"{path} must hold at least one point with a feature; got none")
    chunks = tuple(TextChunk(str(path), *places[k], n_features) for k in kept)
    found = tuple(sizes[k] for k in kept)
    return ChunkedPoints(chunks, found, n_features, np.dtype(np.float64), np.concatenate(labels))
