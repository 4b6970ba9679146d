"""A Gram that remembers its columns from one solve to the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpsvm.errors import InputError, check_number
from qpsvm.gram.base import Gram
from qpsvm.gram.column_store import ColumnStore
from qpsvm.gram.engine.error_bounds import RelativeError

_PRIVATE = ("_stores", "_reduced", "_lock")


@dataclass(frozen=True, eq=False)
class Cached(Gram):
    """Keep the unsigned columns of `gram` between solves: a path of C, other labels, another form.

    One solve at a time uses the store; pickling drops it.

    Parameters
    ----------
    gram : Gram
    memory_limit : int
        Bytes for the columns. The `memory_limit` of a solve that is given this Gram is not used.
    """

    gram: Gram
    memory_limit: int = 1 << 30

    def __post_init__(self) -> None:
        """Check the arguments; columns are allocated by the first solve."""
        if not isinstance(self.gram, Gram):
            raise InputError(f"gram must be a Gram, such as RBF(X); got {type(self.gram).__name__}")
        check_number("memory_limit", self.memory_limit, low=1, integer=True)
        for name in ("m", "dtype", "psd", "by_factor", "unit", "spreads"):
            object.__setattr__(self, name, getattr(self.gram, name))
        self._forget()

    def _forget(self) -> None:
        object.__setattr__(self, "_stores", [])
        object.__setattr__(self, "_reduced", [])
        object.__setattr__(self, "_lock", threading.Lock())

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the description, not the columns."""
        return {k: v for k, v in self.__dict__.items() if k not in _PRIVATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore with an empty store."""
        self.__dict__.update(state)
        self._forget()

    def diag(self) -> NDArray[np.float64]:
        """Return the diagonal of the Gram behind."""
        return self.gram.diag()

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Evaluate a block of the Gram behind."""
        return self.gram.block(columns, rows, dtype)

    def fill(
        self,
        columns: NDArray[np.int64],
        out: NDArray[np.floating],
        slots: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Evaluate columns of the Gram behind in place."""
        self.gram.fill(columns, out, slots, rows)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return the fresh product of the Gram behind: certificates do not read the store."""
        return self.gram.dot(x, rows)

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the Gram behind, restricted; columns of a restriction are not kept."""
        return self.gram.take(rows)

    def own(self, rows: NDArray[np.int64]) -> Any:
        """Return what the Gram behind keeps of the points `rows`."""
        return self.gram.own(rows)

    def reduced(self, rows: NDArray[np.int64]) -> Cached | None:
        """Return the Gram of the points `rows`, which keeps its columns as this one does.

        None where columns over all points, or other ones, are held: the memory is for one store.
        """
        with self._lock:  # type: ignore[attr-defined]
            kept: list[tuple[NDArray[np.int64], Cached]] = self._reduced  # type: ignore[attr-defined]
            if self._stores:  # type: ignore[attr-defined]
                return None
            if not kept:
                kept.append((rows, Cached(self.gram.take_for_solve(rows), self.memory_limit)))
            return kept[0][1] if np.array_equal(kept[0][0], rows) else None

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Evaluate the Gram behind at new points."""
        return self.gram.cross(points, columns)

    @property
    def error(self) -> float:
        """Return that of the Gram behind."""
        return self.gram.error

    @property
    def column_error(self) -> NDArray[np.float64] | None:
        """Return that of the Gram behind, whose columns are held."""
        return self.gram.column_error

    @property
    def relative_error(self) -> RelativeError | None:
        """Return that of the Gram behind."""
        return self.gram.relative_error

    def factor(self) -> Any:
        """Return the factor of the Gram behind."""
        return self.gram.factor()

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Lend the one persistent store; a second solve waits until the first is done."""
        with self._lock:  # type: ignore[attr-defined]
            stores: list[ColumnStore] = self._stores  # type: ignore[attr-defined]
            if not stores:
                self._reduced.clear()  # type: ignore[attr-defined]
                with self.gram.hold(self.memory_limit) as store:
                    store.lasting = True
                    stores.append(store)
            stores[0].n_computed = 0
            yield stores[0]
