"""A sample of cosmic-ray's mutants, in a copy of the project: ``python -m tests.mutation --sample 100``.

Each mutant is one changed operator, number or branch at a place drawn at random. The tests of its
folder run without compilation and stop at the first failure. Those that take long without compilation
are left out: a first run finds them, by processor time, and a second run of the others, which must
pass, is the control. A mutant that none of them notices is asked of all tests of its part with compiled
code; one that they do not notice either survives. The checkout is never changed. Needs cosmic-ray, and
`fork`.
"""

from __future__ import annotations

import argparse
import compileall
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple

from tests.mutation.selection import Selection, load_imports_of_tests

PROJECT_ROOT = Path(__file__).resolve().parents[2]

TESTS_OF_PARTS = {
    "qpsvm/canonical": ("tests/canonical", "tests/driver/test_certificate.py"),
    "qpsvm/domains": ("tests/domains", "tests/solve/test_general.py"),
    "qpsvm/formulations": (
        "tests/formulations", "tests/solve/test_degenerate.py", "tests/solve/test_reference.py",
        "tests/solve/test_input.py", "tests/test_path.py",
    ),
    "qpsvm/driver/certificate.py": (
        "tests/driver/test_certificate.py", "tests/driver/test_approximate_products.py",
        "tests/canonical",
    ),
}  # fmt: skip
"""The tests that are asked about each part of the code."""

COMPILED_TESTS = """
import sys
import pytest
import qpsvm.numerics.code_cache as code_cache

key, *arguments = sys.argv[1:]
code_cache.source_key = lambda: key  # of the unchanged sources: compiled functions are theirs
sys.exit(pytest.main(arguments))
"""
"""Program of the run with compiled code; compiled functions of a changed module stay as they were."""

CONTROLS_OF_TESTS = 4.0
"""Time that all tests of a mutant may take, in times of the control; one that takes longer is noticed."""

NOT_BEGUN = 99
"""Exit code of a child that could not run pytest."""

OPERATORS_LEFT_OUT = "BitOr_", "RemoveDecorator", "ExceptionReplacer"
"""Operators that change annotations, or decorators of compilation, alone in most places."""


class Mutant(NamedTuple):
    """One change at one place of a module."""

    part: str
    module: str
    operator: str
    occurrence: int
    line: int


def mutants() -> Iterator[list[Mutant]]:
    """Yield the mutants of each place."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    for part in TESTS_OF_PARTS:
        path = PROJECT_ROOT / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            tree = get_ast_from_path(file)
            places: dict[Any, list[Mutant]] = {}
            for name in sorted(operator_names()):
                kind = get_operator(name)
                if kind.arguments() or any(left in name for left in OPERATORS_LEFT_OUT):
                    continue
                operator = kind()
                positions = [
                    p for node in ast_nodes(tree) for p in operator.mutation_positions(node)
                ]
                for k, (start, _) in enumerate(positions):
                    module = str(file.relative_to(PROJECT_ROOT))
                    places.setdefault(start, []).append(Mutant(part, module, name, k, start[0]))
            yield from places.values()


def mutated(mutant: Mutant) -> str:
    """Return the text of the changed module."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    text = (PROJECT_ROOT / mutant.module).read_text(encoding="utf-8")
    return str(mutate_code(text, get_operator(mutant.operator)(), mutant.occurrence))


def in_child(work: Callable[[], int], seconds: float, log: Path) -> int | None:
    """Return the exit code of `work` in a forked process; None where it takes longer."""
    child = os.fork()
    if child == 0:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = NOT_BEGUN
        try:
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run_tests(copy: Path, tests: list[str], plugins: list[Any], *options: str) -> int:
    """Run tests of the copy in this process, which has not imported the package yet."""
    import pytest

    os.chdir(copy)
    sys.dont_write_bytecode = True  # the size and second of a change may be those of the last one
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "qpsvm")]:
        del sys.modules[name]  # those of the checkout
    sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != PROJECT_ROOT)]
    common = ["-q", "-p", "no:cacheprovider", "-n", "0", "-o", "addopts=", "-m", "not slow"]
    return int(pytest.main([*common, *options, *tests], plugins=plugins))


def fast_tests(copy: Path, paths: tuple[str, ...], log: Path) -> list[str]:
    """Return the tests that pass in time, without compilation."""
    found = copy / "selected.txt"

    def work() -> int:
        selection = Selection()
        run_tests(copy, list(paths), [selection])
        found.write_text("\n".join(selection.passed), encoding="utf-8")
        return 0

    in_child(work, 1800.0, log)
    names = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    if not names:
        raise RuntimeError(f"no test passes: {log.read_text(encoding='utf-8')[-3000:]}")
    found.unlink()
    return names


def seconds_of_control(copy: Path, tests: list[str], log: Path) -> float:
    """Return the time of tests that must pass on the unchanged copy."""
    begun = time.monotonic()
    code = in_child(lambda: run_tests(copy, tests, [], "-x"), 1800.0, log)
    if code != 0:
        raise RuntimeError(
            f"the control ends with {code}: {log.read_text(encoding='utf-8')[-3000:]}"
        )
    return time.monotonic() - begun


@contextmanager
def changed(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Apply a mutant to the copy inside a ``with`` block."""
    path = copy / mutant.module
    path.write_text(mutated(mutant), encoding="utf-8")
    try:
        yield
    finally:
        shutil.copy(PROJECT_ROOT / mutant.module, path)


class CompiledTests:
    """All tests of a part with compiled code, in a process of their own."""

    def __init__(self, copy: Path, part: str, log: Path) -> None:
        self.copy, self.tests, self.log = copy, TESTS_OF_PARTS[part], log
        self.environment = os.environ | {"NUMBA_DISABLE_JIT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        program = "from qpsvm.numerics.code_cache import source_key; print(source_key())"
        command = [sys.executable, "-c", program]
        found = subprocess.run(
            command, cwd=copy, env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        self.key, self.limit = found.stdout.strip(), 1800.0
        for _ in range(2):  # the first run compiles
            begun = time.monotonic()
            if self.notice():
                text = log.read_text(encoding="utf-8")[-3000:]
                raise RuntimeError(f"the control with compiled code fails: {text}")
        self.limit = CONTROLS_OF_TESTS * (time.monotonic() - begun)
        print(f"{part}, compiled: {time.monotonic() - begun:.0f} s", flush=True)

    def notice(self) -> bool:
        """Return whether a test fails, or the tests take too long."""
        options = ["-q", "-x", "-p", "no:cacheprovider", "-n", "0", "-o", "addopts="]
        arguments = [self.key, *options, "-m", "not slow", *self.tests]
        with self.log.open("w") as file:
            try:
                done = subprocess.run(
                    [sys.executable, "-c", COMPILED_TESTS, *arguments],
                    cwd=self.copy, env=self.environment, stdout=file, stderr=file,
                    timeout=self.limit,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return True
        return is_noticed(done.returncode, self.log)


def is_noticed(code: int | None, log: Path) -> bool:
    """Return whether tests noticed a mutant, by their exit code; None where they took too long.

    Raises
    ------
    RuntimeError
        If a signal ended the tests, or they did not begin.
    """
    if code is not None and (code < 0 or code == NOT_BEGUN):
        raise RuntimeError(f"tests end with {code}: {log.read_text(encoding='utf-8')[-3000:]}")
    return code != 0


def main() -> int:
    """Draw mutants, run tests, and print the survivors and the share of each part."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=100, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="limit of the whole")
    parser.add_argument("--part", choices=TESTS_OF_PARTS, help="this part of the code alone")
    options = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    load_imports_of_tests()  # once, before the forks

    begun = time.monotonic()
    places = [p for p in mutants() if options.part in (None, p[0].part)]
    rng = random.Random(options.seed)
    sample = [rng.choice(place) for place in rng.sample(places, min(options.sample, len(places)))]
    noticed: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy, log = Path(folder) / "copy", Path(folder) / "log"
        left_out = shutil.ignore_patterns(".git", "__pycache__", "machine_code", ".asv", "_build")
        shutil.copytree(PROJECT_ROOT, copy, ignore=left_out)
        by_content = PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(copy, quiet=1, invalidation_mode=by_content)
        selected: dict[str, list[str]] = {}
        limits: dict[str, float] = {}
        compiled: dict[str, CompiledTests] = {}
        for mutant in sample:
            if time.monotonic() - begun > options.seconds:
                break
            if mutant.part not in selected:
                tests = fast_tests(copy, TESTS_OF_PARTS[mutant.part], log)
                seconds = seconds_of_control(copy, tests, log)
                selected[mutant.part], limits[mutant.part] = tests, CONTROLS_OF_TESTS * seconds
                print(f"{mutant.part}: {len(tests)} tests, {seconds:.0f} s", flush=True)
            tests, limit = selected[mutant.part], limits[mutant.part]
            with changed(copy, mutant):
                code = in_child(lambda t=tests: run_tests(copy, t, [], "-x"), limit, log)
            is_found = is_noticed(code, log)
            if not is_found:
                if mutant.part not in compiled:
                    compiled[mutant.part] = CompiledTests(copy, mutant.part, log)
                with changed(copy, mutant):
                    is_found = compiled[mutant.part].notice()
            asked[mutant.part] += 1
            noticed[mutant.part] += is_found
            if not is_found:
                print(f"survived: {mutant.module}:{mutant.line} {mutant.operator}", flush=True)
    for part, n in asked.items():
        print(f"{part}: {noticed[part]} of {n} noticed")
    total = sum(asked.values())
    print(f"all: {sum(noticed.values())} of {total}, seed {options.seed}, {len(places)} places")
    return 0


if __name__ == "__main__":
    sys.exit(main())
