"""Number of threads of numba and of both OpenBLAS libraries: a limit, and a description."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qpsvm.errors import check_number


@contextmanager
def limit(n: int) -> Iterator[None]:
    """Use at most `n` threads inside a ``with`` block, in every library.

    Parameters
    ----------
    n : int
        At least 1; a smaller limit that is already set remains.

    Raises
    ------
    InputError
        If `n` is not a positive integer.

    Examples
    --------
    >>> from qpsvm import threads
    >>> with threads.limit(1):
    ...     print(threads.describe()["numba"].split(",")[0])
    1 threads
    """
    check_number("n", n, low=1, integer=True)
    import numba
    from threadpoolctl import threadpool_limits

    before = numba.get_num_threads()
    most = max((pool["num_threads"] for pool in _blas()), default=n)
    with threadpool_limits(min(n, most), user_api="blas"):
        numba.set_num_threads(min(n, before))
        try:
            yield
        finally:
            numba.set_num_threads(before)


def use_at_most(n: int) -> None:
    """Let this thread's compiled loops use at most `n` threads from now on.

    Examples
    --------
    >>> from qpsvm.threads import use_at_most
    >>> use_at_most(64)
    """
    import numba

    numba.set_num_threads(min(n, numba.get_num_threads()))


def describe() -> dict[str, str]:
    """Return the numbers of threads: a line for numba and one for each BLAS library.

    Examples
    --------
    >>> from qpsvm import threads
    >>> sorted(threads.describe())  # doctest: +SKIP
    ['libscipy_openblas of numpy', 'libscipy_openblas of scipy', 'numba']
    """
    import numba

    lines = {f"{pool['prefix']} of {_owner(pool)}": _blas_line(pool) for pool in _blas()}
    return {"numba": f"{numba.get_num_threads()} threads, version {numba.__version__}", **lines}


def _blas() -> list[dict[str, Any]]:
    """Return the loaded BLAS libraries; scipy loads its own with scipy.linalg."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def _owner(pool: dict[str, Any]) -> str:
    return next((name for name in ("numpy", "scipy") if name in pool["filepath"]), "the system")


def _blas_line(pool: dict[str, Any]) -> str:
    kernels = f", {pool['architecture']} kernels" if pool.get("architecture") else ""
    return f"{pool['num_threads']} threads, version {pool['version']}{kernels}"
