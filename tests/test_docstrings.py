"""The examples of the public docstrings run, and print what they show."""

from __future__ import annotations

import doctest
import inspect

import pytest

import qpsvm
import qpsvm.data
import qpsvm.models
import qpsvm.threads

DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public():
    """Return what is documented, by its full name: public names, models, domains, threads, data."""
    found = {name: getattr(qpsvm, name) for name in qpsvm.__all__}
    for module in (qpsvm.models, qpsvm.domains, qpsvm.threads, qpsvm.data):
        names = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
        for name in names:
            thing = getattr(module, name)
            here = getattr(thing, "__module__", "").startswith(module.__name__)
            if here and callable(thing):
                found[f"{module.__name__}.{name}"] = thing
    return {name: thing for name, thing in found.items() if not inspect.ismodule(thing)}


PUBLIC_OBJECTS = public()
WITHOUT_EXAMPLE = {
    *(
        f"qpsvm.domains.{name}"
        for name in ("Domain", "OracleDomain", "BoxHyperplane", "PenaltyBox")
    ),
    *("Candidate", "Certificate", "History", "Progress", "Result", "Status"),
}
"""Base classes; domains that only formulations make; the parts of a result, of which docs/api/solve.rst
has the examples."""


def examples(thing):
    """Return the examples of a docstring as one test."""
    text = inspect.getdoc(thing) or ""
    return doctest.DocTestParser().get_doctest(text, {}, thing.__name__, None, 0)


@pytest.mark.parametrize("name", sorted(PUBLIC_OBJECTS.keys() - WITHOUT_EXAMPLE))
def test_the_docstring_has_an_example(name):
    assert examples(PUBLIC_OBJECTS[name]).examples


def test_the_examples_print_what_they_show():
    runner = doctest.DocTestRunner(optionflags=DOCTEST_FLAGS, verbose=False)
    report: list[str] = []
    for thing in PUBLIC_OBJECTS.values():
        runner.run(examples(thing), out=report.append)
    assert not runner.failures, "\n".join(report)
