"""
Low rank in place of the kernel
===============================

`LowRank` factors a kernel by a few of its columns. The machine on the factor is quick to train
and to evaluate; `original=True` adds the gap of its answer in the problem on the kernel itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from qpsvm import RBF, HingeDual, LowRank, solve

X, y = make_classification(4000, 12, n_informative=8, class_sep=0.8, random_state=0)
X, y = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
train, test = slice(0, 2000), slice(2000, None)
K = RBF(X[train], gamma=0.02)
exact = solve(HingeDual(K, y[train]), tol=1e-4)

ranks, error, gap, accuracy = [8, 16, 32, 64, 128, 256], [], [], []
for rank in ranks:
    approximate = LowRank(K, rank=rank)
    result = solve(HingeDual(approximate, y[train]), tol=1e-4, original=True)
    error.append(approximate.relative_trace_error)
    gap.append(result.original.relative_gap)
    accuracy.append(np.mean(result.model.predict(X[test]) == y[test]))

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.loglog(ranks, error, "o-", label="trace error of the factor")
left.loglog(ranks, gap, "s-", label="gap in the exact problem")
left.set(xlabel="rank", ylabel="relative", title="How near the approximation is")
left.legend()
right.semilogx(ranks, accuracy, "o-", label="low rank")
right.axhline(
    np.mean(exact.model.predict(X[test]) == y[test]), color="0.4", ls=":", label="exact kernel"
)
right.set(xlabel="rank", ylabel="test accuracy", title="What the classifier loses")
right.legend()
plt.show()
