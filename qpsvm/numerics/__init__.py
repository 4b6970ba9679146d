"""Compiled code and threads on plain arrays; knows nothing of kernels, problems or methods."""
