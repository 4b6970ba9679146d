"""Callbacks of scikit-learn 1.9 and newer: `set_callbacks`, on every estimator.

A fit is one task: its callbacks are called when it begins and when it ends, with the fitted estimator.
They come from `set_callbacks`, or from a search or pipeline around the estimator. The parameter
`callback` is another thing: it is called at the checks of each problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    with_callbacks = None

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this scikit-learn has no callbacks."""


class CallbackSupport(CallbackSupportMixin):
    """Mixin whose subclasses' `fit` calls the callbacks of scikit-learn, if there are any."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if with_callbacks is not None and "fit" in vars(cls):
            cls.fit = _reporting(vars(cls)["fit"])


def _reporting(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `fit` with calls of the callbacks around it."""

    @with_callbacks
    def reported(self: Any, X: Any, y: Any, fitting: Callable[[], Any], weight: Any) -> Any:
        metadata = None if weight is None else {"sample_weight": weight}
        common = {"estimator": self, "X": X, "y": y, "metadata": metadata}
        context = self._init_callback_context()
        context.call_on_fit_task_begin(**common)
        fitted = fitting()
        context.call_on_fit_task_end(**common, reconstruction_attributes=dict)
        return fitted

    @wraps(fit)
    def method(self: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        state = vars(self)
        is_inner = "_callback_fit_ctx" in state  # the fit of a base class
        if is_inner or not ("_skl_callbacks" in state or "_parent_callback_ctx" in state):
            return fit(self, X, y, *args, **kwargs)
        weight = kwargs.get("sample_weight", args[0] if args else None)
        return reported(self, X, y, lambda: fit(self, X, y, *args, **kwargs), weight)

    return method
