"""
An ellipse between two classes, by an interior point method
===========================================================

The plane problem of Jung, O'Leary and Tits, section 5.3: with the features (a², √2 ab, b²) a
plane is an ellipse. `crsvm` needs about as many iterations for any penalty.
:doc:`/experiments/ellipse` shows the rows that it chooses.
"""

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import HingeDual, Linear, solve

shape = np.array([[2.6, -1.4], [-1.4, 3.4]])
X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 2))
level = np.einsum("ij,jk,ik->i", X, shape, X) - 1.0
kept = np.argsort(abs(level))[-1727:]
X, y = X[kept], np.where(level[kept] < 0, 1.0, -1.0)


def features(X):
    a, b = X[..., 0], X[..., 1]
    return np.stack([a * a, np.sqrt(2.0) * a * b, b * b], axis=-1)


C = np.logspace(-2, 4, 7)
problems = [HingeDual(Linear(features(X)), y, C=value) for value in C]
results = [solve(problem, "crsvm", tol=1e-8) for problem in problems]

axis = np.linspace(-1.0, 1.0, 200)
plane = features(np.stack(np.meshgrid(axis, axis), axis=-1)).reshape(-1, 3)
value = results[2].model.decision_function(plane).reshape(200, 200)
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
left.scatter(*X.T, c=y, s=3, cmap="coolwarm")
left.scatter(*X[results[2].support].T, s=30, fc="none", ec="black", label="support")
left.contour(axis, axis, value, [-1, 0, 1], colors="black", linestyles=["--", "-", "--"])
left.set(aspect="equal", title=f"C = {C[2]:g}: {len(results[2].support)} support vectors")
right.semilogx(C, [r.n_iter for r in results], "o-", label="crsvm")
right.set(xlabel="C", ylabel="iterations to a gap of 1e-8", ylim=(0, None))
right.legend()
plt.show()
