"""Canonical forms: the problems that formulations compile to and methods solve."""
