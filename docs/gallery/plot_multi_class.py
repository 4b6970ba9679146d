"""
Regions of several classes
==========================

`SVC` trains a machine for each pair of classes, as LIBSVM does, and `predict` counts votes. scikit-learn's
own display draws its regions.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.inspection import DecisionBoundaryDisplay

from qpsvm import SVC, LinearSVC

X, y = make_blobs(400, centers=5, cluster_std=1.3, random_state=4)
models = {
    "SVC, RBF kernel": SVC(C=10.0).fit(X, y),
    "SVC, cubic kernel": SVC(C=10.0, kernel="poly", coef0=1.0).fit(X, y),
    "LinearSVC, one against the rest": LinearSVC().fit(X, y),
}

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    DecisionBoundaryDisplay.from_estimator(
        model, X, response_method="predict", plot_method="pcolormesh", alpha=0.25, cmap="tab10", ax=ax
    )
    ax.scatter(*X.T, c=y, s=10, cmap="tab10", vmin=0, vmax=4)
    ax.set_title(f"{name}\naccuracy {model.score(X, y):.3f}, gap {model.dual_gap_:.0e}", fontsize=10)
plt.show()
