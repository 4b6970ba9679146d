"""Architecture: imports run one way, nothing heavy is loaded at import, files and names are readable."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from qpsvm.numerics.code_cache import FOLDERS_ABOVE_COMPILED_CODE

PROJECT_ROOT = Path(__file__).resolve().parents[1]

PACKAGE_LAYERS = (
    {"errors", "clock", "resources"},
    {"result", "threads"},
    {"numerics"},
    {"gram", "domains"},
    {"canonical"},
    {"expansion"},
    {"models"},
    {"formulations", "solvers"},
    {"driver"},
    {"data"},
    {"distributed"},
    {"api"},
    {"plot", "path"},
    {"estimators"},
    {"files", "precompile"},
    {"demo"},
    {"cli"},
    {"__main__"},
)
"""A module imports from its own package and from the layers above its own in this list."""

LAYER_RANK = {name: rank for rank, layer in enumerate(PACKAGE_LAYERS) for name in layer}

FAMILIES_THAT_MAY_IMPORT = {
    "min_norm_point": {"smo", "working_set"},  # pairs within a face; blocks of a Gram in cache
    "newton": {"coordinate_descent", "interior_point"},  # directions; normal matrices
    "working_set": {"smo"},  # which solves what it poses
}
"""Families of solvers import `base`, `shared` and these others."""

LATE_IMPORTS = {("result", "qpsvm.plot.of_result")}
"""Imports of a higher layer, in a function: `Result.plot` knows of the pictures when one is drawn."""

MAX_FILES = 15
"""Python files of a folder."""


PACKAGE_NAMES = "qpsvm", "problems", "reference", "tests", "asv_benchmarks", "docs"


def sources(*packages):
    found = (path for package in packages for path in (PROJECT_ROOT / package).rglob("*.py"))
    return sorted(
        path
        for path in found
        if not re.search(r"/[._]", str(path.parent)[len(str(PROJECT_ROOT)) :])
    )


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path):
    return path.relative_to(PROJECT_ROOT).as_posix()


def imports(path):
    """Return the dotted names of all modules that a file imports, wherever it does."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


every_source = pytest.mark.parametrize("path", sources("qpsvm"), ids=name_of)
every_file = pytest.mark.parametrize("path", sources(*PACKAGE_NAMES), ids=name_of)


@every_source
def test_imports_run_one_way(path):
    inside = path.relative_to(PROJECT_ROOT / "qpsvm").as_posix()
    own = inside.split("/")[0].removesuffix(".py")
    if own == "__init__":
        return  # the public names
    assert own in LAYER_RANK, f"{inside} belongs to no layer: add it to PACKAGE_LAYERS"
    for module in imports(path):
        other = (module.split(".") + [""])[1]
        if module.split(".")[0] != "qpsvm" or other not in LAYER_RANK or other == own:
            continue
        if (own, ".".join(module.split(".")[:3])) in LATE_IMPORTS:
            continue
        assert LAYER_RANK[other] < LAYER_RANK[own], (
            f"{inside} imports {module}, which stands above it"
        )


def test_the_key_of_compiled_code_leaves_out_only_what_it_cannot_depend_on():
    for name in FOLDERS_ABOVE_COMPILED_CODE - {"__init__"}:
        assert LAYER_RANK[name] > LAYER_RANK["solvers"]
        file = PROJECT_ROOT / f"qpsvm/{name}.py"
        for path in sources(f"qpsvm/{name}") + [file] * file.exists():
            compiling = {"numba", "qpsvm.numerics.jit"} & set(imports(path))
            assert not compiling or name == "demo", f"{name_of(path)} imports {compiling}"


@pytest.mark.parametrize(
    "path",
    sources("qpsvm/solvers"),
    ids=lambda path: path.relative_to(PROJECT_ROOT / "qpsvm").as_posix(),
)
def test_families_of_solvers_are_apart(path):
    family = path.parent.name
    if family == "solvers":
        return
    allowed = {family, "base", "shared"} | FAMILIES_THAT_MAY_IMPORT.get(family, set())
    for module in imports(path):
        parts = module.split(".")
        if parts[:2] == ["qpsvm", "solvers"] and len(parts) > 2:
            assert parts[2] in allowed, f"{name_of(path)} imports {module}"


def graph(package):
    """Return the modules of a package that each of them imports, wherever it does."""
    dotted = {
        ".".join(path.relative_to(PROJECT_ROOT).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in sources(package)
    }
    late = {(f"qpsvm.{own}", module) for own, module in LATE_IMPORTS}
    return {
        name: {other for other in set(imports(path)) & set(dotted) if (name, other) not in late}
        - {name}
        for name, path in dotted.items()
    }


@pytest.mark.parametrize("package", ["qpsvm", "problems", "reference", "asv_benchmarks"])
def test_no_import_circle(package):
    left = graph(package)
    while True:
        leaves = {name for name, needed in left.items() if not needed & left.keys()}
        if not leaves:
            break
        left = {name: needed for name, needed in left.items() if name not in leaves}
    assert not left, f"these import each other: {sorted(left)}"


def folders(*packages):
    return sorted({path.parent for path in sources(*packages)})


@pytest.mark.parametrize("folder", folders(*PACKAGE_NAMES), ids=name_of)
def test_folders_are_small(folder):
    assert len(list(folder.glob("*.py"))) <= MAX_FILES


LISTS_OF_NAMES = (
    "qpsvm", "qpsvm/gram", "qpsvm/gram/kernels", "qpsvm/domains", "qpsvm/formulations",
    "qpsvm/estimators", "qpsvm/plot", "qpsvm/cli",
)  # fmt: skip
"""Folders whose `__init__.py` exports names; those of estimators and plot import each when it
is asked for, and the commands import what they need when they run."""

FACES_WITHOUT_NAMES = [
    folder / "__init__.py" for folder in folders("qpsvm") if name_of(folder) not in LISTS_OF_NAMES
]


@pytest.mark.parametrize("path", FACES_WITHOUT_NAMES, ids=name_of)
def test_other_folders_import_nothing(path):
    """Else importing qpsvm would load numba, and one method all others."""
    assert len(parsed(path).body) == 1 and ast.get_docstring(parsed(path))


@every_source
def test_the_library_knows_nothing_of_the_development_packages(path):
    roots = {module.split(".")[0] for module in imports(path)}
    allowed = {"reference"} if name_of(path) in ("qpsvm/demo/run.py",) else set()
    assert not roots & ({"problems", "reference", "tests", "asv_benchmarks"} - allowed)


@pytest.mark.parametrize("path", sources("reference"), ids=name_of)
def test_the_reference_shares_nothing_with_the_library(path):
    assert not any(module.split(".")[0] == "qpsvm" for module in imports(path))


VERIFICATION_FILES = (
    "bounds claims container dual_bounds evaluation kernel_values minima plain verification"
)
"""Files of `qpsvm/files/` that a verification runs."""


@pytest.mark.parametrize("name", VERIFICATION_FILES.split())
def test_the_verification_shares_nothing_with_the_solvers(name):
    """Neither with what certifies an answer: it would repeat its mistakes."""
    allowed = {"errors", *(f"files.{other}" for other in VERIFICATION_FILES.split())}
    for module in imports(PROJECT_ROOT / f"qpsvm/files/{name}.py"):
        package, _, rest = module.partition(".")
        if package in PACKAGE_NAMES:
            assert rest in allowed | {"files"} or rest.rpartition(".")[0] in allowed, module


def test_the_formulations_are_spoken_of_by_one_file_name():
    names = "l2_svm meb polytope_distance hinge lp_svm ls_svm one_class svdd reduced_hulls".split()
    for name in names:
        for package in ("qpsvm/formulations", "problems", "reference"):
            assert (PROJECT_ROOT / package / f"{name}.py").exists()


@every_source
def test_only_what_talks_to_people_prints(path):
    if path.name not in ("run.py", "display.py", "precompile.py"):
        for node in ast.walk(parsed(path)):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id == "print"), node.lineno


@every_file
def test_files_are_short_and_finished(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert not re.search("TO" + "DO|FIX" + "ME|XX" + "X", text)
    assert not text or ast.get_docstring(parsed(path)), "a file begins by saying what it is"


def test_import_loads_neither_numba_nor_scikit_learn(fresh_process):
    heavy = "numba sklearn joblib matplotlib tqdm click cvxpy osqp clarabel pandas".split()
    code = f"import sys, qpsvm; print([name for name in {heavy} if name in sys.modules])"
    assert fresh_process(code).strip() == "[]"


def test_estimators_are_listed_and_load_when_asked_for(fresh_process):
    code = """
import sys, qpsvm
assert "SVC" in dir(qpsvm) and "SVC" in dir(qpsvm.estimators)
before = "sklearn" in sys.modules or "qpsvm.estimators.base" in sys.modules
same = qpsvm.SVC is qpsvm.estimators.SVC
print(before, same, "sklearn" in sys.modules, hasattr(qpsvm, "SVCX"))
"""
    assert fresh_process(code).strip() == "False True True False"


def test_first_solve_loads_numba_alone(fresh_process):
    code = """
import sys, qpsvm, numpy
qpsvm.solve(qpsvm.MEBDual(numpy.eye(3)), "mfw")
heavy = "numba", "sklearn", "joblib", "matplotlib", "tqdm"
print([name for name in heavy if name in sys.modules])
"""
    assert fresh_process(code).strip() == "['numba']"


def test_first_solve_loads_its_own_method_alone(fresh_process):
    code = """
import gc, sys, qpsvm, numpy
X = numpy.random.default_rng(0).standard_normal((50, 3))
assert qpsvm.solve(qpsvm.HingeDual(qpsvm.RBF(X), numpy.sign(X[:, 0]))).method == "smo"
print(gc.isenabled(), "scipy.spatial" in sys.modules)
print([name for name in sys.modules if name.startswith("qpsvm.solvers.")])
"""
    switches, loaded = fresh_process(code).splitlines()
    assert switches == "True False"
    families = "frank_wolfe decomposition crsvm mnp face_newton dcd nesvm".split()
    assert "qpsvm.solvers.smo.smo" in loaded
    assert not any(f"'qpsvm.solvers.{family}'" in loaded for family in families)


def test_public_names_are_documented():
    import qpsvm

    assert all(getattr(qpsvm, name).__doc__ for name in qpsvm.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", qpsvm.__version__)


TERMS_OF_ONE_WORD = {
    "FALLBACKS", "FLOAT32", "INSTANCES", "LOG2E", "METHODS", "PARAMETERS", "QUANTUM", "QUOTAS",
    "EPS", "EPS64", "INF", "NAN", "RNG", "TOL", "L2", "X32", "THETA", "BETA", "MIB", "GIB",
}  # fmt: skip
"""Constants whose name of one word is the term itself; besides these, symbols of one letter."""


@every_file
def test_constants_say_what_they_count(path):
    """By two words at least: a noun with a role or a unit."""
    for node in parsed(path).body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        for target in targets:
            for name in getattr(target, "elts", [target]):
                if isinstance(name, ast.Name) and name.id.isupper() and len(name.id) > 1:
                    assert "_" in name.id.strip("_") or name.id in TERMS_OF_ONE_WORD, name.id
