"""solve_path(): one problem for many values of a parameter, each solve warm-started."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from qpsvm.api import default_memory_limit, solve
from qpsvm.clock import Clock, call_clock
from qpsvm.distributed.recognition import chunked_kernel
from qpsvm.driver.selection import check_problem
from qpsvm.errors import InputError, Interrupted, check_choice, check_number
from qpsvm.formulations import Formulation
from qpsvm.gram import Cached, Gram, Linear
from qpsvm.result import Model, Result


class Path(list[Result[Model]]):
    """The results of a path, and their values of the parameter.

    Attributes
    ----------
    values : list
        A value for each result, in the same order.
    name : str
        The parameter.
    """

    def __init__(
        self, results: Iterable[Result[Model]] = (), values: Iterable[Any] = (), name: str = ""
    ) -> None:
        super().__init__(results)
        self.values = list(values)
        self.name = name


def solve_path(
    problem: Formulation[Model],
    name: str,
    values: Iterable[Any],
    method: str = "auto",
    *,
    memory_limit: int | None = None,
    time_limit: float | None = None,
    time_limit_each: float | None = None,
    interrupt: str = "return",
    **options: Any,
) -> Path[Model]:
    """Solve a problem for each value of one of its parameters.

    Each solve starts from the answer of the previous one. A parameter of the problem does not change the
    kernel's columns: they are computed once and kept within `memory_limit`. A parameter of the kernel
    changes them all; then only the starting point is reused.

    Parameters
    ----------
    problem : Formulation
        For example ``HingeDual(RBF(X, gamma=0.1), y)`` or ``LSSVMPrimal(RBF(X), y)``; its own value of
        the parameter is not used.
    name : str
        A parameter of the problem, such as ``"C"``, ``"chi"`` or ``"nu"``, or one of its kernel,
        such as ``"gamma"``.
    values : iterable
        Numbers are solved in ascending order, other values in the given one.
    method : str
        As in `solve`.
    memory_limit : int, optional
        Bytes for the columns that are kept; by default as in `solve`.
    time_limit : float, optional
        Seconds for the whole path, from the start of the call: the current solve ends, and the path too.
    time_limit_each : float, optional
        Seconds for one value; the other values are still solved.
    interrupt : {"return", "raise"}
        Effect of the first Ctrl-C: it ends the current solve and the path, whose results so far are
        returned, or raised as the ``result`` of `Interrupted`.
    **options
        Other arguments of `solve`, such as ``tol=1e-4``, the same for every value.

    Returns
    -------
    Path
        A list of results, one for each value in the order of `values`, and at least one. Where the path
        ended early it is shorter: its ``values`` are those solved.

    Raises
    ------
    InputError
        If neither the problem nor its kernel has the parameter, or a value is malformed.
    Interrupted
        On Ctrl-C, with ``interrupt="raise"``.

    Examples
    --------
    >>> path = solve_path(HingeDual(RBF(X, gamma=0.1), y), "C", [0.1, 1, 10])  # doctest: +SKIP
    """
    check_problem(problem)
    if time_limit is not None:
        check_number("time_limit", time_limit, low=0.0)
    check_choice("interrupt", interrupt, ("return", "raise"))
    clock = Clock(time_limit, call_clock())
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
    with clock.listening(), clock.limiting_calls():
        for i in order:
            if before is not None and clock.expired:
                break
            x0 = None if before is None else _start(problems[i], *before)
            each = {"memory_limit": limit, "time_limit": time_limit_each, **options}
            results[i] = solve(problems[i], method, x0=x0, **each)
            before = problems[i], results[i]
    done = sorted(results)
    path = Path([results[i] for i in done], [values[i] for i in done], name)
    if clock.interrupted and interrupt == "raise":
        raise Interrupted(path)
    return path


def _start(problem: Formulation, earlier: Formulation, result: Result) -> Any:
    """Return a start from the answer to an earlier problem: passes over rows continue from a machine."""
    by_machine = isinstance(chunked_kernel(problem), Linear)
    return result if by_machine else problem.carried(earlier, result)


def _problems(problem: Formulation, name: str, values: list[Any], limit: int) -> list[Formulation]:
    """Return the problem for each value: all arguments are checked before the first solve."""
    field, K = _gram(problem)
    own = _parameters(problem) - {"K", "X", "y", "Q", "bias"}
    inner = K.gram if isinstance(K, Cached) else K
    if name in own:
        shared = {} if K is None else {field: K}
        chunked = chunked_kernel(problem) is not None  # whose columns no process holds
        is_plain = isinstance(K, Gram) and not isinstance(K, Cached) and not chunked
        if is_plain and K.factor() is None:
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
    """Return the name of the field of the problem's Gram, and the Gram, or None for points."""
    for field in ("K", "X"):
        if isinstance(getattr(problem, field, None), Gram):
            return field, getattr(problem, field)
    return "X", None


def _parameters(thing: Any) -> set[str]:
    return {f.name for f in fields(thing)} if is_dataclass(thing) else set()


def _changed(thing: Any, **values: Any) -> Any:
    return replace(thing, **values)
