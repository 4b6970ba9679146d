"""
The smallest ball, and its core sets
====================================

`MEBDual` is the smallest ball around points. A core set is a few points whose ball, enlarged by
`1 + eps`, holds all points; its size does not depend on the number of points.
"""

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import Linear, MEBDual, solve
from qpsvm.plot import BallDisplay

X = np.random.default_rng(5).standard_normal((2000, 2)) @ [[1.2, 0.3], [0.0, 1.0]]
problem = MEBDual(Linear(X))
result = solve(problem, tol=1e-9)
print(result)

fig, ax = plt.subplots(figsize=(5.4, 5.4), layout="constrained")
BallDisplay.from_result(result, X, ax=ax)
ax.set_title(f"radius {result.model.radius:.4f}, {len(result.support)} support points")

# %%
# In 50 dimensions the core set grows as the tolerance falls, and soon stops growing: then it is
# the support itself.

X = np.random.default_rng(0).standard_normal((5000, 50))
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
tolerances = np.logspace(-1, -8, 15)
for method in ("fw", "mfw", "cvm"):
    kept = tolerances if method != "fw" else tolerances[tolerances > 1e-4]
    sizes = [len(solve(MEBDual(Linear(X)), method, tol=tol).support) for tol in kept]
    ax.semilogx(kept, sizes, "o-", ms=4, label=method)
ax.invert_xaxis()
ax.set(
    xlabel="certified relative gap",
    ylabel="points in the core set",
    title="5,000 points, 50 dimensions",
)
ax.legend()
plt.show()
