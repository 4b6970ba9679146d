"""How answers are found and verified: polish on the active set, primal and dual points as a pair."""
