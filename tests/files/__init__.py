"""Tests of qpsvm/files."""
