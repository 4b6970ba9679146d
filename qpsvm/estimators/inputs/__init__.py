"""What a fit is given: parameters, points, weights and kernels, checked and arranged."""
