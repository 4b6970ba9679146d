"""Our side of docs/benchmarks/exact_kernel.md as asv tracks it; n/a where data are missing."""

from __future__ import annotations

from typing import Any

from asv_benchmarks.exact_kernel import DATA_SETS, LARGE_SET_POINTS, measure

PROGRAM_NAMES = ("qpsvm", "qpsvm 1e-6", "qpsvm one thread", "L2-SVM")
L2_SVM_SETS = ("a9a", "w8a", "mc10k")
"""Sets of which the L2-SVM is solved, too."""

TRAINING_RUNS = {
    f"{name}: {who}": (name, who)
    for name in DATA_SETS
    for who in PROGRAM_NAMES
    if who != "L2-SVM" or name in L2_SVM_SETS
}


class Training:
    """Every solve has processes of its own, and all figures come from one run of each."""

    params = list(TRAINING_RUNS)
    param_names = ["set and what"]
    timeout = 1800

    def setup_cache(self) -> dict[str, dict[str, Any]]:
        """Return the rows of what is tracked."""
        return {key: next(measure(name, [who])) for key, (name, who) in TRAINING_RUNS.items()}

    def setup(self, rows: dict[str, dict[str, Any]], key: str) -> None:
        """Skip what was not measured."""
        if "seconds" not in rows[key]:
            raise NotImplementedError(rows[key]["note"])

    def track_seconds(self, rows: dict[str, dict[str, Any]], key: str) -> float:
        """Seconds from the call to the certified answer."""
        return float(rows[key]["seconds"])

    def track_certificate(self, rows: dict[str, dict[str, Any]], key: str) -> float:
        """Seconds of these for the certificates."""
        return float(rows[key]["certify"])

    def track_peak_memory(self, rows: dict[str, dict[str, Any]], key: str) -> float:
        """Greatest resident memory, data included."""
        return float(rows[key]["peak"])

    def track_columns(self, rows: dict[str, dict[str, Any]], key: str) -> int:
        """Kernel columns over all points."""
        return int(rows[key]["columns"])

    def track_over_floor(self, rows: dict[str, dict[str, Any]], key: str) -> float:
        """Time without certificates over that of the support's columns by products and np.exp."""
        row = rows[key]
        if "floor" not in row or row["m"] <= LARGE_SET_POINTS:
            return float("nan")
        return float((row["seconds"] - row["certify"]) / row["floor"])

    track_seconds.unit = track_certificate.unit = "s"  # type: ignore[attr-defined]
    track_peak_memory.unit = "MB"  # type: ignore[attr-defined]
    track_columns.unit = "kernel columns"  # type: ignore[attr-defined]
    track_over_floor.unit = "times"  # type: ignore[attr-defined]
