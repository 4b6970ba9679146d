"""A regression is what asv finds worse twice; what was noise, or failed, is told apart."""

from __future__ import annotations

import pytest

from asv_benchmarks import compare

RESULT_TABLE = """\
| Change   | Before [898cc17c] <main>   | After [77a7fd4a]   | Ratio   | Benchmark (Parameter)   |
|----------|----------------------------|--------------------|---------|-------------------------|
{rows}
SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY.
"""
SLOWER_ROWS = (
    "| + | 1.08±0.2ms | 1.82±1ms | 1.69 | solving.ToPromisedGap.time_solve('meb/digits-rbf mfw') |"
)
FEWER_ROW = "| - | 3 | 2 | 0.67 | solving.Work.track_columns('l2_svm/breast-cancer-rbf smo') |"
FAILING_ROW = "| ! | 5.0s | failed | n/a | reuse.Path.time_path |"


def answers(*outputs):
    """Return a stand-in for asv with these outputs in turn, and the list of its calls."""
    calls, left = [], list(outputs)

    def asv(arguments):
        calls.append(list(arguments))
        return left.pop(0)

    return asv, calls


def table(*rows):
    return int(any("| +" in row for row in rows)), RESULT_TABLE.format(rows="\n".join(rows))


def test_what_is_worse_twice_fails():
    asv, calls = answers(table(SLOWER_ROWS, FEWER_ROW, FAILING_ROW), table(SLOWER_ROWS))
    assert compare.main(["main"], asv) == 1
    first, second = calls
    assert first[-2:] == second[-2:] == ["main", "HEAD"]
    assert "--interleave-rounds" in first and first[first.index("--factor") + 1] == "1.3"
    again = second[second.index("--bench") + 1]
    assert again == r"^(reuse\.Path\.time_path|solving\.ToPromisedGap\.time_solve)(\(|$)"


def test_what_is_worse_once_was_noise():
    asv, calls = answers(table(SLOWER_ROWS), table())
    assert compare.main(["main", "HEAD~1"], asv) == 0 and len(calls) == 2


def test_nothing_worse_is_measured_once():
    asv, calls = answers(table(FEWER_ROW))
    assert compare.main(["main"], asv) == 0 and len(calls) == 1


def test_a_failure_of_asv_is_no_success():
    asv, _ = answers((2, "cannot build"))
    with pytest.raises(RuntimeError, match="code 2"):
        compare.main(["main"], asv)
