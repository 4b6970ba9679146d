"""The bytes that are counted are those of the model: nothing else goes between client and shards."""

from __future__ import annotations

import pytest

from docs.make.cluster.model import Size, certificate_bytes, check_bytes, step_bytes
from qpsvm import RBF, HingeDual, MEBDual, solve
from qpsvm.distributed.group import ProcessShards
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_BYTES, N_FEATURES, N_POINTS

OTHER_CALLS = {"summary", "move", "diagonal", "start", "take_exact", "rows", "gap", "entries"}
"""Calls that the model leaves out: those of the beginning and of the end, and points fetched alone."""


def bytes_by_model(size, method, common, each, answers):
    """Return the bytes of a call by its counts, or None for a call that the model does not have."""
    if method == "step":
        _, points, ids, _, _, _ = common
        n_new = 0 if points is None else len(points)
        n_members = sum(len(own) for own, _ in each)
        n_violators = sum(len(v.up) + len(v.down) for v in answers)
        offered = [first for v in answers for first in (v.first_up, v.first_down)]
        n_offered = sum(len(first.diagonal) for first in offered)
        return step_bytes(size, n_new, len(ids), n_members, n_violators, n_offered)
    if method == "along":
        return sum(check_bytes(size, len(grid)) for grid in common[1])
    if method == "recompute":
        _, points, ids, _, at = common
        n_new = 0 if points is None else len(points)
        return certificate_bytes(size, n_new, len(ids), at.level is not None)
    return None


@pytest.mark.parametrize("kind", [HingeDual, MEBDual])
def test_steps_checks_and_certificates_send_what_the_model_says(cloud, monkeypatch, kind):
    X, y = cloud
    rows = open_rows(X, chunk_bytes=CHUNK_BYTES)
    kernel = RBF(rows, gamma=0.3)
    size, seen, others = Size(N_POINTS, N_FEATURES, 4), [], []
    call = ProcessShards.call

    def recorded(group, method, *common, each=None):
        before = group.n_sent
        answers = call(group, method, *common, each=each)
        expected = bytes_by_model(size, method, common, each, answers)
        sent = group.n_sent - before
        (others if expected is None else seen).append((method, expected, sent))
        return answers

    monkeypatch.setattr(ProcessShards, "call", recorded)
    result = solve(kind(kernel, y) if kind is HingeDual else kind(kernel), tol=1e-5)
    assert result.converged and {method for method, _, _ in seen} == {"step", "along", "recompute"}
    assert [expected for _, expected, _ in seen] == [sent for _, _, sent in seen]
    assert {method for method, _, _ in others} <= OTHER_CALLS
    assert sum(sent for _, _, sent in others) < 0.1 * result.counters["bytes_sent"]
