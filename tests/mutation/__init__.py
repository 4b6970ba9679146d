"""Mutation tests of the code of certificates: the number of mutants that the tests of a folder detect."""
