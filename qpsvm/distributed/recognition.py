"""Whether a problem is solved over shards: a test that every solve makes, and that loads no solver."""

from __future__ import annotations

from typing import Any

from qpsvm.gram.kernels.base import PointGram
from qpsvm.gram.storage.chunked import ChunkedPoints


def chunked_kernel(problem: Any) -> PointGram | None:
    """Return the kernel of a problem where its points are chunked; None otherwise."""
    gram = getattr(getattr(problem, "_dual", problem), "K", None)
    chunked = isinstance(gram, PointGram) and isinstance(gram.X, ChunkedPoints)
    return gram if chunked else None
