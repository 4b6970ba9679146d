"""Tests of result files."""
