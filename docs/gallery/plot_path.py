"""
A path over C
=============

`solve_path` solves for many values of a parameter. Each solve starts from the answer before, and
a kernel column is computed once for all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from qpsvm import RBF, HingeDual, solve_path
from qpsvm.plot import PathDisplay

X, y = load_breast_cancer(return_X_y=True)
X, y = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
train, test = slice(0, None, 2), slice(1, None, 2)

C = np.logspace(-2, 3, 16)
problem = HingeDual(RBF(X[train], gamma="scale"), y[train])
path = solve_path(problem, "C", C, tol=1e-4)
for value, result in list(zip(C, path, strict=True))[::5]:
    print(f"C = {value:8.3g}: {result.counters['columns']:4d} new columns, {result.method}")

# %%
# Each machine of the path is certified by itself.

fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
PathDisplay.from_path(path, X[test], y[test], name="C", ax=ax)
ax.set_title("Support vectors, and accuracy on points that were left out")
plt.show()
