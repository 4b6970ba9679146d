"""
The tube of a support vector regression
=======================================

Errors of at most `epsilon` cost nothing. `SVR` takes the width as given; `NuSVR` finds the width
at which at most a share `nu` of the points lies outside.
"""

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import SVR, NuSVR

rng = np.random.default_rng(2)
X = np.sort(rng.uniform(0.0, 6.0, (150, 1)), axis=0)
y = np.sin(X[:, 0]) * np.exp(-0.15 * X[:, 0]) + 0.12 * rng.standard_normal(150)
grid = np.linspace(0.0, 6.0, 300)[:, None]

fitted = SVR(C=10.0, gamma=1.0, epsilon=0.2).fit(X, y)
found = NuSVR(C=10.0, gamma=1.0, nu=0.2).fit(X, y)
width = np.sort(np.abs(found.predict(X) - y))[int(0.8 * len(y))]

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, name, model, epsilon in (
    (axes[0], "SVR, epsilon = 0.2", fitted, 0.2),
    (axes[1], f"NuSVR, nu = 0.2: tube of about {width:.2f}", found, width),
):
    value = model.predict(grid)
    ax.fill_between(grid[:, 0], value - epsilon, value + epsilon, color="C0", alpha=0.15)
    ax.plot(grid, value, color="C0")
    ax.scatter(X, y, s=8, color="0.5")
    ax.scatter(
        X[model.support_], y[model.support_], s=28, fc="none", ec="C3", label="support vectors"
    )
    ax.set_title(
        f"{name}\n{len(model.support_)} support vectors, gap {model.dual_gap_:.0e}", fontsize=10
    )
axes[0].legend()
plt.show()
