"""
The distance of two polytopes
=============================

`PolytopeDistanceDual` finds the closest points of two convex hulls. The line midway between them separates the points
with the widest margin. `NuSVCDual` shrinks hulls that meet.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

from qpsvm import Linear, NuSVCDual, PolytopeDistanceDual, solve

rng = np.random.default_rng(1)
y = np.repeat([1.0, -1.0], 60)
X = rng.standard_normal((120, 2)) + np.outer(y, [3.0, 1.5])


def draw(ax, X, model, title):
    for sign, color in ((1.0, "C0"), (-1.0, "C1")):
        points = X[y == sign]
        ax.fill(*points[ConvexHull(points).vertices].T, fc=color, alpha=0.15)
        ax.scatter(*points.T, s=10, color=color)
    x = np.array([X[:, 0].min(), X[:, 0].max()])
    ax.plot(x, -(model.w[0] * x + model.b) / model.w[1], "k--", label="separating line")
    ax.set(title=title, ylim=(X[:, 1].min() - 0.5, X[:, 1].max() + 0.5))


fig, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
model = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-9).model
draw(ax, X, model, f"distance {model.distance:.4f}")
ax.plot(*np.array([model.p, model.q]).T, "ko-", label="closest points")
ax.legend()

# %%
# Hulls that overlap have the distance 0. Reduced hulls limit the weight of each point, here to 2 / (nu m).

Z = X - np.outer(y, [1.8, 0.9])
fig, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
reduced = solve(NuSVCDual(Linear(Z), y, nu=0.4), tol=1e-8).model
draw(ax, Z, reduced, f"reduced hulls, nu = 0.4: distance {reduced.distance:.4f}")
plt.show()
