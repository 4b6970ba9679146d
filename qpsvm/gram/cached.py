"""A Gram whose cached columns are kept from one solve to the next."""

from __future__ import annotations

import threading
import weakref
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
from qpsvm.numerics.forks import after_fork_in_child

UNPICKLED_ATTRIBUTES = ("_stores", "_reduced", "_lock", "_holders")
"""Attributes that a pickle leaves out: the columns, their lock, and the thread that holds it."""


_grams_of_process: weakref.WeakSet[Cached] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class Cached(Gram):
    """Keep the unsigned columns of `gram` between solves: for other C, labels or formulations.

    One solve at a time uses the store, and others wait; a solve in a callback of that one has a store of
    its own. Pickling drops it.

    Parameters
    ----------
    gram : Gram
    memory_limit : int
        Bytes for the columns. The `memory_limit` of a solve that is given this Gram is not used.

    Examples
    --------
    >>> import numpy as np
    >>> from qpsvm import RBF, Cached, MEBDual, solve
    >>> K = Cached(RBF(np.random.default_rng(0).standard_normal((50, 2)), gamma=1.0))
    >>> first, second = (solve(MEBDual(K), "mfw").counters["columns"] for _ in range(2))
    >>> first > 0, second
    (True, 0)
    """

    gram: Gram
    memory_limit: int = 1 << 30

    def __post_init__(self) -> None:
        """Check the arguments; columns are allocated by the first solve."""
        if not isinstance(self.gram, Gram):
            raise InputError(f"gram must be a Gram, such as RBF(X); got {type(self.gram).__name__}")
        check_number("memory_limit", self.memory_limit, low=1, integer=True)
        for name in ("m", "dtype", "psd", "is_kernel", "by_factor", "unit", "is_parallel"):
            object.__setattr__(self, name, getattr(self.gram, name))
        self._reset()

    def _reset(self) -> None:
        object.__setattr__(self, "_stores", [])
        object.__setattr__(self, "_reduced", [])
        object.__setattr__(self, "_lock", threading.Lock())
        object.__setattr__(self, "_holders", set())
        _grams_of_process.add(self)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the description, not the columns."""
        return {k: v for k, v in self.__dict__.items() if k not in UNPICKLED_ATTRIBUTES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore with an empty store."""
        self.__dict__.update(state)
        self._reset()

    def diag(self) -> NDArray[np.float64]:
        """Return the diagonal of the underlying Gram."""
        return self.gram.diag()

    def block(
        self, columns: NDArray[np.int64], rows: Any = None, dtype: Any = None
    ) -> NDArray[np.floating]:
        """Evaluate a block of the underlying Gram."""
        return self.gram.block(columns, rows, dtype)

    def fill(
        self,
        columns: NDArray[np.int64],
        out: NDArray[np.floating],
        slots: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Evaluate columns of the underlying Gram in place."""
        self.gram.fill(columns, out, slots, rows)

    def dot(self, x: NDArray[np.float64], rows: Any = None) -> NDArray[np.float64]:
        """Return the recomputed product of the underlying Gram: certificates do not read the store."""
        return self.gram.dot(x, rows)

    def take(self, rows: NDArray[np.int64]) -> Gram:
        """Return the underlying Gram of the points `rows`, whose columns are not kept."""
        return self.gram.take(rows)

    def own(self, rows: NDArray[np.int64]) -> Any:
        """Return the part of the underlying Gram that a model of the points `rows` stores."""
        return self.gram.own(rows)

    def reduced(self, rows: NDArray[np.int64]) -> Cached | None:
        """Return the Gram of the points `rows` with its columns kept between solves.

        None where columns over all points, or over other ones, are cached: there is memory for one store.
        None, too, in a callback of the solve that uses the store.
        """
        if self._is_held_here():
            return None
        with self._lock:  # type: ignore[attr-defined]
            kept: list[tuple[NDArray[np.int64], Cached]] = self._reduced  # type: ignore[attr-defined]
            if self._stores:  # type: ignore[attr-defined]
                return None
            if not kept:
                kept.append((rows, Cached(self.gram.take_for_solve(rows), self.memory_limit)))
            return kept[0][1] if np.array_equal(kept[0][0], rows) else None

    def cross(self, points: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Evaluate the underlying Gram at new points."""
        return self.gram.cross(points, columns)

    @property
    def error(self) -> float:
        """Return that of the underlying Gram."""
        return self.gram.error

    def dot_error(
        self,
        x: NDArray[np.float64],
        support: NDArray[np.int64],
        rows: NDArray[np.int64] | None = None,
    ) -> float | NDArray[np.float64]:
        """Return that of the underlying Gram."""
        return self.gram.dot_error(x, support, rows)

    @property
    def column_error(self) -> NDArray[np.float64] | None:
        """Return that of the underlying Gram, whose columns are cached."""
        return self.gram.column_error

    @property
    def relative_error(self) -> RelativeError | None:
        """Return that of the underlying Gram."""
        return self.gram.relative_error

    def factor(self) -> Any:
        """Return the factor of the underlying Gram."""
        return self.gram.factor()

    @contextmanager
    def hold(self, memory_limit: int) -> Iterator[ColumnStore]:
        """Provide the one persistent store; a second solve waits until the first is finished.

        A solve in a callback of the first would wait forever: it is given a store of its own.
        """
        if self._is_held_here():
            with self.gram.hold(memory_limit) as store:
                yield store
            return
        holders: set[int] = self._holders  # type: ignore[attr-defined]
        with self._lock:  # type: ignore[attr-defined]
            holders.add(threading.get_ident())
            try:
                stores: list[ColumnStore] = self._stores  # type: ignore[attr-defined]
                if not stores:
                    self._reduced.clear()  # type: ignore[attr-defined]
                    with self.gram.hold(self.memory_limit) as store:
                        store.lasting = True
                        stores.append(store)
                stores[0].n_computed = 0
                yield stores[0]
            finally:
                holders.discard(threading.get_ident())

    def _is_held_here(self) -> bool:
        """Return whether a solve around this call, in the same thread, uses the store."""
        return threading.get_ident() in self._holders  # type: ignore[attr-defined]


def _drop_stores_of_other_threads() -> None:
    """Drop, in a forked process, the columns that another thread of its parent was computing."""
    for gram in list(_grams_of_process):
        if gram._holders - {threading.get_ident()}:  # type: ignore[attr-defined]
            gram._reset()
        elif not gram._holders and gram._lock.locked():  # type: ignore[attr-defined]
            gram._reset()  # the lock was taken at this moment


after_fork_in_child(_drop_stores_of_other_threads)
