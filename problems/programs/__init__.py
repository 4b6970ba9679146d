"""Programs over domains: least squares, quadratics given by Q, and smooth convex functions."""
