"""
A search for C and gamma as a heat map
======================================

`SVCCV` computes products of points once for all gamma and a kernel matrix once for all folds, pairs and C. Every
cell has a certified gap beside its score.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from qpsvm import SVCCV

X, y = load_digits(n_class=6, return_X_y=True)
X = X / 16.0
Cs, gammas = np.logspace(-2, 2, 6), np.logspace(-3, 0, 6)
search = SVCCV(Cs=Cs, gammas=gammas, cv=3).fit(X, y)
print(search.best_params_, f"score {search.best_score_:.4f}")
print(f"largest gap of all cells {search.cv_results_['max_dual_gap'].max():.1e}")

# %%
# Scores are means over three folds.

table = search.cv_results_
score = np.full((len(gammas), len(Cs)), np.nan)
for C, gamma, mean in zip(
    table["param_C"], table["param_gamma"], table["mean_test_score"], strict=True
):
    score[np.argmin(abs(gammas - gamma)), np.argmin(abs(Cs - C))] = mean

fig, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
image = ax.imshow(score, origin="lower", vmin=0.9, cmap="viridis")
ax.set_xticks(range(len(Cs)), [f"{C:.2g}" for C in Cs])
ax.set_yticks(range(len(gammas)), [f"{gamma:.2g}" for gamma in gammas])
for i, j in np.ndindex(score.shape):
    color = "black" if score[i, j] > 0.95 else "white"
    ax.text(j, i, f"{score[i, j]:.3f}", ha="center", va="center", color=color, fontsize=8)
ax.set(xlabel="C", ylabel="gamma", title="Accuracy, three folds")
fig.colorbar(image, label="accuracy (0.9 and below: darkest)")
plt.show()
