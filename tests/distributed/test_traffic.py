"""The bytes that are counted are those of the model: nothing else goes between client and shards."""

from __future__ import annotations

import pytest

from docs.make.cluster.model import (
    Size,
    certificate_bytes,
    check_bytes,
    fetch_bytes,
    sample_bytes,
    scaled_step_bytes,
    step_bytes,
    vertex_bytes,
)
from qpsvm import RBF, HingeDual, L2SVMDual, MEBDual, NuSVCDual, PolytopeDistanceDual, solve
from qpsvm.distributed.group import ProcessShards
from qpsvm.distributed.rows import open_rows
from tests.distributed.conftest import CHUNK_BYTES, N_FEATURES, N_POINTS

OTHER_CALLS = {"summary", "move", "diagonal", "start", "take_exact", "gap", "entries", "below"}
"""Calls that the model leaves out: those of the beginning and of the end."""

PROBLEM_OF_NAME = {
    "hinge": HingeDual,
    "ball": lambda K, y: MEBDual(K),
    "l2": lambda K, y: L2SVMDual(K, y, C=2.0),
    "distance": lambda K, y: PolytopeDistanceDual(K, y, chi=2.0),
    "reduced hulls": lambda K, y: NuSVCDual(K, y, nu=0.5),
}

SCALED_STEP_CASES = [
    ("ball", "mfw", {}),
    ("l2", "pfw", {"steps_per_trip": 1}),
    ("distance", "bpfw", {}),
    ("distance", "mfw", {"start": "ball"}),
    ("ball", "fw", {"sampling": 59}),
    ("distance", "mfw", {"sampling": 59}),
    ("ball", "mnp", {}),
    ("distance", "mnp", {}),
]
"""Problems, methods whose steps are scaled ones, and options."""


def n_new(points):
    """Return the number of points that are sent to every shard."""
    return 0 if points is None else len(points)


def n_found(answers):
    """Return the number of violators of all shards, and of those that come with their points."""
    n_violators = sum(len(found.up) + len(found.down) for found in answers)
    first = [part for found in answers for part in (found.first_up, found.first_down)]
    return n_violators, sum(len(part.diagonal) for part in first)


def bytes_by_model(size, method, common, each, answers):
    """Return the bytes of a call by its counts, or None for a call that the model does not have."""
    if method == "step":
        n_members = sum(len(own) for own, _ in each)
        return step_bytes(size, n_new(common[1]), len(common[2]), n_members, *n_found(answers))
    if method == "scaled_step":
        assert sum(len(own) for own, _ in each) == len(common[3])
        return scaled_step_bytes(size, n_new(common[2]), len(common[3]), *n_found(answers))
    if method == "sampled":
        n_violators, n_offered = n_found(answers)
        assert n_violators == n_offered
        return sample_bytes(size, n_new(common[1]), len(common[2]), n_offered)
    if method in ("farthest", "nearest"):
        return vertex_bytes(size, by_group=method == "nearest")
    if method == "rows":
        return fetch_bytes(size, sum(len(local) for (local,) in each))
    if method == "along":
        return sum(check_bytes(size, len(grid)) for grid in common[1])
    if method == "recompute":
        _, points, ids, _, at = common
        return certificate_bytes(size, n_new(points), len(ids), at.level is not None)
    return None


@pytest.fixture
def traffic(cloud, monkeypatch):
    """A function that solves a problem and returns the bytes of its calls by the model and counted."""
    X, y = cloud
    call = ProcessShards.call

    def solved(name, method, tol, **options):
        n_groups = 2 if name in ("distance", "reduced hulls") else 1
        size = Size(N_POINTS, N_FEATURES, 4, n_groups=n_groups)
        seen, others, totals = [], [], [0]

        def recorded(group, method, *common, each=None):
            before = group.n_sent
            answers = call(group, method, *common, each=each)
            expected = bytes_by_model(size, method, common, each, answers)
            sent = group.n_sent - before
            (others if expected is None else seen).append((method, expected, sent))
            totals.append(totals[-1] + (sent if expected is None else expected))
            return answers

        monkeypatch.setattr(ProcessShards, "call", recorded)
        K = RBF(open_rows(X, chunk_bytes=CHUNK_BYTES), gamma=0.3)
        result = solve(PROBLEM_OF_NAME[name](K, y), method, tol=tol, **options)
        assert result.converged
        assert [expected for _, expected, _ in seen] == [sent for _, _, sent in seen]
        assert {method for method, _, _ in others} <= OTHER_CALLS
        # The history has the bytes up to some call, by the model's for those that it has.
        assert set(result.history.bytes_sent.tolist()) <= set(totals)
        assert result.counters["bytes_sent"] == totals[-1]
        return result, seen, sum(sent for _, _, sent in others)

    return solved


@pytest.mark.parametrize("name", PROBLEM_OF_NAME)
def test_steps_checks_and_certificates_send_what_the_model_says(traffic, name):
    result, seen, rest = traffic(name, "decomposition", 1e-5)
    assert {"step", "along", "recompute"} <= {method for method, _, _ in seen}
    assert rest < 0.2 * result.counters["bytes_sent"]


@pytest.mark.parametrize(("name", "method", "options"), SCALED_STEP_CASES)
def test_scaled_steps_and_samples_send_what_the_model_says(traffic, name, method, options):
    tol = 5e-2 if method == "fw" or options.get("steps_per_trip") == 1 else 1e-3
    result, seen, _ = traffic(name, method, tol, **options)
    methods = [method for method, _, _ in seen]
    assert {"scaled_step", "along", "recompute"} <= set(methods)
    assert methods.count("sampled") == result.counters.get("samples", 0)
    assert ("sampled" in methods) == ("sampling" in options)


@pytest.mark.parametrize("options", [{}, {"vertices_per_trip": 1, "start": "two-point"}])
@pytest.mark.parametrize("name", ["ball", "distance"])
def test_steps_of_a_core_set_send_what_the_model_says(traffic, name, options):
    _, seen, _ = traffic(name, "cvm", 1e-3, **options)
    methods = {method for method, _, _ in seen}
    assert {"step", "along", "recompute"} <= methods and "scaled_step" not in methods
