"""The picture of the README and of the landing page: regions of a classifier, and seconds of training.

python -m docs.make.overview
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from docs.benchmarks.make.pictures import exact_kernel
from qpsvm import SVC
from qpsvm.plot import DecisionRegionDisplay

FOLDER = Path(__file__).resolve().parents[1] / "_static"


def main() -> None:
    """Draw both panels."""
    X, y = make_moons(160, noise=0.2, random_state=1)
    model = SVC(C=10.0, gamma=1.0).fit(X, y)
    fig, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
    DecisionRegionDisplay.from_estimator(model, X, y, ax=left)
    left.set_title(f"SVC, certified relative gap {model.dual_gap_:.0e}", fontsize=11)
    exact_kernel(right, ("a9a", "w8a", "mnist-3-8", "mc20k", "letter", "shuttle"))
    right.set_xlabel("seconds of training, RBF kernel, two cores of an AMD EPYC")
    fig.savefig(FOLDER / "overview.png", dpi=100)


if __name__ == "__main__":
    main()
