"""
Contours of a one-class SVM
===========================

`OneClassDual` leaves at most a share `nu` of the points outside. The line is where the decision
function is zero.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from qpsvm import RBF, OneClassDual, solve
from qpsvm.plot import OneClassDisplay

X, _ = make_moons(300, noise=0.08, random_state=0)
K = RBF(X, gamma=4.0)

fig, axes = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
for ax, nu in zip(axes, (0.02, 0.3), strict=True):
    result = solve(OneClassDual(K, nu=nu), tol=1e-5)
    OneClassDisplay.from_result(result, X, ax=ax)
    share, gap = np.mean(result.model.predict(X) < 0), result.certificate.relative_gap
    ax.set_title(f"nu = {nu:g}: {share:.1%} outside, gap {gap:.0e}", fontsize=10)
plt.show()
