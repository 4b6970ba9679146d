"""Mutants of the code that proves: how many do the tests of its folder notice?"""
