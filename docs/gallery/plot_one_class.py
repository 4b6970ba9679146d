"""
Contours of a one-class SVM
===========================

`OneClassDual` leaves at most a share `nu` of the points outside. The line is where the decision function is zero.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from qpsvm import RBF, OneClassDual, solve

X, _ = make_moons(300, noise=0.08, random_state=0)
K = RBF(X, gamma=4.0)
u, v = np.meshgrid(np.linspace(-2.0, 3.0, 120), np.linspace(-1.3, 1.8, 120))
grid = np.column_stack([u.ravel(), v.ravel()])

fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharex=True, sharey=True)
for ax, nu in zip(axes, (0.02, 0.1, 0.4), strict=True):
    result = solve(OneClassDual(K, nu=nu), tol=1e-5)
    level = result.model.decision_function(grid).reshape(u.shape)
    inside = result.model.predict(X) > 0
    ax.contourf(u, v, level, levels=12, cmap="Blues", alpha=0.7)
    ax.contour(u, v, level, levels=[0.0], colors="black")
    ax.scatter(*X[inside].T, s=8, color="C1")
    ax.scatter(*X[~inside].T, s=18, color="C3", marker="x")
    share = np.mean(~inside)
    ax.set_title(f"nu = {nu:g}: {share:.1%} outside, gap {result.certificate.relative_gap:.0e}", fontsize=10)
plt.show()
