"""
A search for C and gamma as a heat map
======================================

`SVCCV` computes products of points once for all gamma and a kernel matrix once for all folds,
pairs and C. Every cell has a certified gap beside its score.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from qpsvm import SVCCV
from qpsvm.plot import SearchDisplay

X, y = load_digits(n_class=6, return_X_y=True)
search = SVCCV(Cs=np.logspace(-1, 2, 6), gammas=np.logspace(-3, 0, 6), cv=3).fit(X / 16.0, y)
print(f"best {search.best_params_}, score {search.best_score_:.4f}")
print(f"largest gap of all cells {search.cv_results_['max_dual_gap'].max():.1e}")

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
SearchDisplay.from_search(search, ax=ax)
ax.set_title("Accuracy, three folds")
plt.show()
