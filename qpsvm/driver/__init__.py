"""Code common to all methods: choice, presolve, iteration loop, certificate, fallbacks."""
