"""
Frank-Wolfe methods side by side
================================

The same ball in feature space by seven methods. `fw` moves toward one point at a time and its gap
falls like one over the number of steps; with away steps (`mfw`) or pairs (`pfw`, `bpfw`) it falls
linearly.
"""

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import RBF, MEBDual, solve
from qpsvm.plot import ConvergenceDisplay

X = np.random.default_rng(0).standard_normal((3000, 8))
problem = MEBDual(RBF(X, gamma=0.05))
names = ("fw", "mfw", "pfw", "bpfw", "swap", "smo", "cvm")
results = {}
for name in names:
    solve(problem, name, tol=1e-1)  # compiles
    results[name] = solve(problem, name, tol=1e-8, max_iter=5000)
    gap, steps = results[name].certificate.relative_gap, results[name].n_iter
    print(f"{name:5} {steps:5d} iterations, {len(results[name].support):3d} points, gap {gap:.1e}")

# %%
# The last point of each curve is the certified gap, the others are estimates at the checks.

fig, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained", sharey=True)
ConvergenceDisplay.from_results(results, against="iteration", ax=axes[0])
ConvergenceDisplay.from_results(results, against="time", ax=axes[1])
plt.show()
