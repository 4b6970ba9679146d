"""
A flow of least cost on a graph
===============================

`QuadraticProgram(Q, c, domain)` minimizes ½ x'Qx + c'x over a domain that is known by its linear
minimizer; for `FlowPolytope` that is a shortest path. There is no cheap projection: this is what
Frank-Wolfe methods are for.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from qpsvm import QuadraticProgram, methods, solve
from qpsvm.domains import FlowPolytope

layers, width = 7, 6
rng = np.random.default_rng(1)
node = np.arange(layers * width).reshape(layers, width) + 1
source, target = 0, layers * width + 1
pairs = [(source, n) for n in node[0]] + [(n, target) for n in node[-1]]
for a, b in pairwise(node):
    pairs += [(i, j) for i in a for j in b if rng.random() < 0.5]
tail, head = np.array(pairs).T
domain = FlowPolytope(tail, head, source, target)
problem = QuadraticProgram(np.eye(domain.m), rng.uniform(0.0, 1.0, domain.m), domain)
results = {
    n: solve(problem, n, tol=1e-7, max_iter=400) for n in ("fw", "mfw", "bpfw", "fcfw", "dicg")
}
print(methods(problem))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
place = {n: (k + 1, r) for k, row in enumerate(node) for r, n in enumerate(row)}
place |= {source: (0, (width - 1) / 2), target: (layers + 1, (width - 1) / 2)}
flow = results["fcfw"].model.point
for i, j, amount in zip(tail, head, flow, strict=True):
    ends = np.array([place[i], place[j]]).T
    left.plot(*ends, color="C0" if amount > 1e-6 else "0.9", lw=0.5 + 14 * amount, zorder=amount)
left.scatter(*np.array(list(place.values())).T, s=14, color="black", zorder=2)
left.set_title(f"One unit over {np.sum(flow > 1e-6)} of {domain.m} edges")
left.axis("off")
for name, result in results.items():
    right.semilogy(result.history.iteration, result.history.relative_gap, label=name)
right.set(xlabel="iterations", ylabel="relative gap", ylim=(1e-8, 2))
right.legend()
plt.show()
