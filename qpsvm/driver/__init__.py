"""What surrounds the iterations of every method: choice, presolve, loop, certificate, fallbacks."""
