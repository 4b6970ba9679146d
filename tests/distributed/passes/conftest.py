"""What the tests of passes over rows share."""

from __future__ import annotations

import pytest

from qpsvm.distributed.passes import declare


@pytest.fixture
def small_sample(monkeypatch):
    """A sample of few rows, so that its machine is far from that of all."""
    monkeypatch.setattr(declare, "sample_size", lambda m: 50)
