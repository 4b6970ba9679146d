"""Number of files that a solve visits, and number of changes from one file to another.

    python -m docs.make.data_path

Calls are traced in five iterations of a hinge dual by ``method="auto"``, and for a column that is not
cached: from the store on, and within a solve by `mfw` from the prefetch on. Compiled code counts as one
call of its file.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qpsvm

PACKAGE_FOLDER = str(Path(qpsvm.__file__).parent)
"""Folder of the package whose calls are counted."""

SHOWN_PAIRS = 25
"""Number of pairs of files that are printed."""


def followed(call: Callable[[], Any]) -> tuple[Counter[str], Counter[tuple[str, str]], list[str]]:
    """Return calls by file of the package, changes from file to file, and the functions, in order."""
    calls: Counter[str] = Counter()
    changes: Counter[tuple[str, str]] = Counter()
    functions: list[str] = []
    last = ""

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal last
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE_FOLDER):
            file = file[len(PACKAGE_FOLDER) + 1 :]
            calls[file] += 1
            functions.append(f"{file}:{frame.f_code.co_name}")
            if file != last:
                changes[last, file] += 1
            last = file

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls, changes, functions


def data() -> tuple[Any, Any]:
    """Return 3,000 points of four features in two overlapping classes, and their labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    return X, np.where(X[:, 0] + 0.5 * rng.standard_normal(3000) > 0.0, 1.0, -1.0)


def main() -> None:
    """Print the counts."""
    X, y = data()

    def hinge() -> None:
        qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X, 0.2), y, 1.0), max_iter=5)

    hinge()  # imports and compiles
    calls, changes, _ = followed(hinge)
    n_changes = changes.total()
    print(f"hinge dual by auto, five iterations: {len(calls)} files, {n_changes} changes of file")
    entered = Counter[str]()
    for (_, file), n in changes.items():
        entered[file] += n
    for file, n in entered.most_common():
        print(f"  entered {n:3d} times, {calls[file]:3d} calls  {file}")
    print("changes of file, most frequent first:")
    for (file, other), n in changes.most_common(SHOWN_PAIRS):
        print(f"  {n:3d}  {file} -> {other}")

    from qpsvm.gram.column_store import ColumnStore

    kernel = qpsvm.RBF(X, 0.2)
    store = ColumnStore(kernel, 1 << 26)
    for columns in ([1, 2], [3]):  # compiles both ways to evaluate them
        store.ensure(np.array(columns))
    _, _, functions = followed(lambda: store.ensure(np.array([7])))
    print(f"a column that is not cached: {len(functions)} calls")
    print(*(f"  {name}" for name in functions), sep="\n")

    def ball() -> None:
        qpsvm.solve(qpsvm.MEBDual(qpsvm.RBF(X, 0.2)), "mfw", tol=1e-9, max_iter=300)

    ball()  # compiles
    _, _, every = followed(ball)
    starts = [at for at, name in enumerate(every) if name.endswith("prefetch.py:serve")]
    first = every[starts[1] :]  # of one column, after the start
    first = first[: first.index(functions[-1]) + 1]
    print(f"the same in a solve by mfw, from the prefetch on: {len(first)} calls")
    print(*(f"  {name}" for name in first), sep="\n")


if __name__ == "__main__":
    main()
