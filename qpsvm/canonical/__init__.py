"""Canonical forms: what a formulation compiles to and a method works on."""
