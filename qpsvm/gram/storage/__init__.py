"""How points are stored: dense, CSR, integers, packed bits, a grid of bytes."""
