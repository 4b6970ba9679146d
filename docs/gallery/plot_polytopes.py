"""
The distance of two polytopes
=============================

`PolytopeDistanceDual` finds the closest points of two convex hulls. The line midway between them
separates the points with the widest margin. `NuSVCDual` shrinks hulls that meet.
"""

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import Linear, NuSVCDual, PolytopeDistanceDual, solve
from qpsvm.plot import ClosestPointsDisplay, DecisionRegionDisplay

rng = np.random.default_rng(1)
y = np.repeat([1.0, -1.0], 60)
X = rng.standard_normal((120, 2)) + np.outer(y, [3.0, 1.5])
result = solve(PolytopeDistanceDual(Linear(X), y), tol=1e-9)
fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
ClosestPointsDisplay.from_result(result, X, y, ax=ax)
ax.set_title(f"distance {result.model.distance:.4f}")

# %%
# Hulls that overlap have the distance 0. Reduced hulls limit the weight of each point, here to
# 2 / (nu m).

Z = X - np.outer(y, [1.8, 0.9])
reduced = solve(NuSVCDual(Linear(Z), y, nu=0.4), tol=1e-8)
fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
DecisionRegionDisplay.from_result(reduced, Z, y, ax=ax)
ax.set_title(f"reduced hulls, nu = 0.4: distance {reduced.model.distance:.4f}")
plt.show()
