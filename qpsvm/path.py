"""solve_path(): one problem for many values of a parameter, each solve warm from the last."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from qpsvm.api import default_memory_limit, solve
from qpsvm.choice import check_problem
from qpsvm.errors import InputError, check_number
from qpsvm.formulations import Formulation
from qpsvm.gram import Cached, Gram
from qpsvm.result import Model, Result


def solve_path(
    problem: Formulation[Model],
    name: str,
    values: Iterable[Any],
    method: str = "auto",
    *,
    memory_limit: int | None = None,
    **options: Any,
) -> list[Result[Model]]:
    """Solve a problem for each value of one of its parameters.

    Each solve starts from the answer to the one before, and a parameter of the problem leaves the
    kernel's columns as they are: they are computed once and kept under `memory_limit`. A parameter
    of the kernel changes them all; then only the start is warm.

    Parameters
    ----------
    problem : Formulation
        For example ``HingeDual(RBF(X, gamma=0.1), y)`` or ``LSSVMPrimal(RBF(X), y)``; its own value of
        the parameter is not used.
    name : str
        A parameter of the problem, such as ``"C"``, ``"chi"`` or ``"nu"``, or one of its kernel,
        such as ``"gamma"``.
    values : iterable
        Numbers are taken in ascending order, anything else as given.
    method : str
        As in `solve`.
    memory_limit : int, optional
        Bytes for the columns that are kept; by default as in `solve`.
    **options
        What else `solve` takes, such as ``tol=1e-4``, the same for every value.

    Returns
    -------
    list of Result
        One for each value, in the order of `values`. A solve that meets a limit does not stop the
        others.

    Raises
    ------
    InputError
        If neither the problem nor its kernel has the parameter, or a value is malformed.

    Examples
    --------
    >>> path = solve_path(HingeDual(RBF(X, gamma=0.1), y), "C", [0.1, 1, 10])  # doctest: +SKIP
    """
    check_problem(problem)
    if "x0" in options:
        raise InputError("x0 is not taken by solve_path: each solve starts from the last answer")
    if memory_limit is not None:
        check_number("memory_limit", memory_limit, low=1, integer=True)
    limit = default_memory_limit() if memory_limit is None else memory_limit
    values = list(values)
    problems = _problems(problem, name, values, limit)
    order = range(len(values))
    if all(isinstance(value, numbers.Real) for value in values):
        order = sorted(order, key=lambda i: float(values[i]))  # type: ignore[assignment]
    results: dict[int, Result] = {}
    before: tuple[Formulation, Result] | None = None
    for i in order:
        x0 = None if before is None else problems[i].carried(*before)
        results[i] = solve(problems[i], method, x0=x0, memory_limit=limit, **options)
        before = problems[i], results[i]
    return [results[i] for i in range(len(values))]


def _problems(problem: Formulation, name: str, values: list[Any], limit: int) -> list[Formulation]:
    """Return the problem for each value; all are made, and so checked, before the first solve."""
    field, K = _gram(problem)
    own = _parameters(problem) - {"K", "X", "y", "Q", "bias"}
    inner = K.gram if isinstance(K, Cached) else K
    if name in own:
        shared = {} if K is None else {field: K}
        if isinstance(K, Gram) and not isinstance(K, Cached) and K.factor() is None:
            shared = {field: Cached(K, limit)}
        return [_changed(problem, **shared, **{name: value}) for value in values]
    kernels = _parameters(inner) - {"X", "K"}
    if name not in kernels:
        known = ", ".join(repr(key) for key in sorted(own | kernels))
        raise InputError(
            f"name must be a parameter of the problem or its kernel ({known}); got {name!r}"
        )
    return [_changed(problem, **{field: _changed(inner, **{name: value})}) for value in values]


def _gram(problem: Any) -> tuple[str, Any]:
    """Return the field that holds the problem's Gram, and the Gram; of points that field and None."""
    for field in ("K", "X"):
        if isinstance(getattr(problem, field, None), Gram):
            return field, getattr(problem, field)
    return "X", None


def _parameters(thing: Any) -> set[str]:
    return {f.name for f in fields(thing)} if is_dataclass(thing) else set()


def _changed(thing: Any, **values: Any) -> Any:
    return replace(thing, **values)
