"""
A path over C
=============

`solve_path` solves for many values of a parameter. Each solve starts from the answer before, and a kernel column is
computed once for all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from qpsvm import RBF, HingeDual, solve_path

X, y = load_breast_cancer(return_X_y=True)
X, y = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
train, test = slice(0, None, 2), slice(1, None, 2)

C = np.logspace(-2, 3, 16)
problem = HingeDual(RBF(X[train], gamma="scale"), y[train])
path = list(solve_path(problem, "C", C, tol=1e-4))
for value, result in zip(C[::5], path[::5], strict=True):
    print(f"C = {value:8.3g}: {result.counters['columns']:4d} new columns, {result.method}")

# %%
# Each machine of the path is certified by itself.

accuracy = {
    "training": [np.mean(r.model.predict(X[train]) == y[train]) for r in path],
    "test": [np.mean(r.model.predict(X[test]) == y[test]) for r in path],
}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for name, values in accuracy.items():
    left.semilogx(C, values, "o-", label=name)
left.set(xlabel="C", ylabel="accuracy", title="Accuracy")
left.legend()
right.semilogx(C, [len(r.support) for r in path], "s-", color="C2")
right.set(xlabel="C", ylabel="support vectors", title="Size of the machine")
plt.show()
