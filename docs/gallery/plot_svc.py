"""
SVC in place of scikit-learn's, with its certificate
====================================================

The import is the only line that changes. `dual_gap_` is the certified relative gap of the fit;
`from_sklearn` certifies a machine that scikit-learn has trained.
"""

import matplotlib.pyplot as plt
from sklearn import svm
from sklearn.datasets import load_digits

from qpsvm import SVC, from_sklearn

X, y = load_digits(return_X_y=True)
model = SVC(gamma=0.001, C=10.0).fit(X[::2], y[::2])
print(f"test accuracy {model.score(X[1::2], y[1::2]):.3f}, certified gap {model.dual_gap_:.1e}")

# %%
# scikit-learn's `tol` bounds a violation of the conditions of optimality. What gap that means
# differs from problem to problem, and can be read off afterwards.

tolerances = [1e-1, 1e-2, 1e-3, 1e-4]
machines = [svm.SVC(gamma=0.001, C=10.0, tol=tol).fit(X[::2], y[::2]) for tol in tolerances]
theirs = [from_sklearn(machine, X[::2], y[::2]).dual_gap for machine in machines]
ours = [SVC(gamma=0.001, C=10.0, tol=tol).fit(X[::2], y[::2]).dual_gap_ for tol in tolerances]

fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.loglog(tolerances, theirs, "o-", label="scikit-learn, certified afterwards")
ax.loglog(tolerances, ours, "s-", label="qpsvm")
ax.loglog(tolerances, tolerances, ":", color="0.4", label="gap = tol")
ax.set(xlabel="tol", ylabel="largest certified relative gap", title="What tol means")
ax.legend()
plt.show()
