"""Tests of qpsvm/cli."""
