"""
Regions of several classes
==========================

`SVC` trains a machine for each pair of classes, as LIBSVM does, and `predict` counts votes. The
display draws regions, margins and support vectors of a fitted classifier.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from qpsvm import SVC, LinearSVC
from qpsvm.plot import DecisionRegionDisplay

X, y = make_blobs(300, centers=4, cluster_std=1.6, random_state=4)
models = {
    "SVC, RBF kernel": SVC(C=10.0).fit(X, y),
    "LinearSVC, one against the rest": LinearSVC().fit(X, y),
}

fig, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    DecisionRegionDisplay.from_estimator(model, X, y, ax=ax)
    score, gap = model.score(X, y), model.dual_gap_
    ax.set_title(f"{name}\naccuracy {score:.3f}, certified gap {gap:.0e}", fontsize=10)
plt.show()
