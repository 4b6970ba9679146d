"""Machine code on disk: its key, its folders, and failures of reading and writing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.registry import cpu_target

import qpsvm
from qpsvm.clock import Clock, CompilationStopped
from qpsvm.numerics.code_cache import CodeCache

CALLEE_FILE = """
from qpsvm.numerics.jit import njit

@njit(cache=True)
def factor(x):
    return {} * x
"""

CALLER_FILE = """
from qpsvm.numerics.jit import njit
from qpsvm.callee import factor

@njit(cache=True)
def scaled(x):
    return factor(x) + 1.0
"""

RUN_SCRIPT = """
import logging
logging.basicConfig(format="logged: %(message)s")
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
from qpsvm.caller import scaled
print(scaled(1.0), compiled)
"""


class Installation:
    """A copy of the package with two small compiled functions, one of which calls the other."""

    def __init__(self, root: Path):
        self.package, self.cache = root / "site" / "qpsvm", root / "cache"
        ignored = shutil.ignore_patterns("__pycache__", "machine_code")
        shutil.copytree(Path(qpsvm.__file__).parent, self.package, ignore=ignored)
        (self.package / "caller.py").write_text(CALLER_FILE)
        self.set_factor(2.0)

    def set_factor(self, value: float) -> None:
        (self.package / "callee.py").write_text(CALLEE_FILE.format(value))

    def environment(self, **changes: str) -> dict[str, str]:
        dropped = {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "QPSVM_MACHINE_CODE"}
        inherited = {name: value for name, value in os.environ.items() if name not in dropped}
        own = {"PYTHONPATH": str(self.package.parent), "NUMBA_CACHE_DIR": str(self.cache)}
        return {**inherited, **own, **changes}

    def run(self, code: str = RUN_SCRIPT, **changes: str) -> tuple[str, str]:
        """Return the output and the log of a new process."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=self.environment(**changes),
            cwd=self.package.parent,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr.strip()

    def files(self) -> list[Path]:
        return sorted(self.cache.rglob("*.nbc"))


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)


def test_a_second_process_compiles_nothing(installation):
    assert installation.run() == ("3.0 ['scaled', 'factor']", "")
    assert installation.run() == ("3.0 []", "")


def test_an_edit_in_the_file_of_a_callee_is_noticed(installation):
    installation.run()
    installation.set_factor(5.0)
    assert installation.run()[0] == "6.0 ['scaled', 'factor']"


def test_without_a_folder_that_can_be_written_code_stays_in_memory_and_the_log_says_so_once(
    installation,
):
    nowhere = os.devnull + "/cache"
    places = {
        "NUMBA_CACHE_DIR": "",
        "HOME": nowhere,
        "XDG_CACHE_HOME": nowhere,
        "LOCALAPPDATA": nowhere,
    }
    said, logged = installation.run(**places)
    assert said == "3.0 ['scaled', 'factor']"
    assert logged.count("logged: ") == 1 and "compiled code stays in memory" in logged


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty", marks=pytest.mark.slow),
        pytest.param(b"no pickle", id="other", marks=pytest.mark.slow),
        pytest.param(None, id="truncated"),
    ],
)
def test_a_damaged_file_is_compiled_again(installation, content):
    installation.run()
    for file in installation.files():
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert installation.run()[0] == "3.0 ['scaled', 'factor']"
    assert installation.run()[0] == "3.0 []"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of the size of files")
def test_a_disk_that_is_full_fails_no_call(installation):
    limited = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
"""
    said, logged = installation.run(limited + RUN_SCRIPT)
    assert said == "3.0 ['scaled', 'factor']"
    assert logged.count("logged: ") == 1 and "compiled code stays in memory" in logged
    assert installation.files() == []
    assert not [path for path in installation.cache.rglob("*") if path.is_file()]


def test_code_of_old_states_of_the_sources_is_removed(installation):
    for age in range(1, 8):
        folder = installation.cache / f"qpsvm-{age:016x}"
        folder.mkdir(parents=True)
        (folder / "some.nbc").write_bytes(b"old")
        os.utime(folder, (1e9 - age, 1e9 - age))
    installation.run()
    left = {path.name for path in installation.cache.iterdir()}
    assert len(left) == 5
    assert {f"qpsvm-{age:016x}" for age in range(1, 5)} < left


def test_code_that_the_package_carries_is_used(installation, tmp_path):
    installation.run()
    carried = tmp_path / "carried"
    for state in installation.cache.iterdir():
        shutil.copytree(state, carried / state.name.removeprefix("qpsvm-"))
    shutil.rmtree(installation.cache)
    assert installation.run(QPSVM_MACHINE_CODE=str(carried)) == ("3.0 []", "")


SELECT_SCRIPT = """
from llvmlite import binding
from qpsvm.numerics import code_cache
has = code_cache.AVX512_FEATURES | {"avx512vnni"}
binding.get_host_cpu_features = lambda: {name: True for name in has}
target = code_cache.selected()
print(target.name, "avx512vnni" in target.features)
"""


def test_a_level_of_instruction_sets_serves_where_the_processor_has_no_code(installation):
    said, _ = installation.run(SELECT_SCRIPT)
    assert said.endswith("True")  # no code at all: the processor itself
    key, _ = installation.run(
        "from qpsvm.numerics.code_cache import source_key; print(source_key())"
    )
    for level in ("x86-64-v2", "x86-64-v4", "icelake-server"):
        (installation.package / "machine_code" / key / level).mkdir(parents=True)
    assert installation.run(SELECT_SCRIPT)[0] == "x86-64-v4 False"


STOP_SCRIPT = """
from qpsvm.caller import scaled
from qpsvm.clock import Clock, CompilationStopped
try:
    with Clock(0.0).compiling():
        scaled(1.0)
except CompilationStopped:
    print("stopped", scaled(1.0))
"""


def test_compilation_stops_when_it_is_asked_to_and_can_be_done_again(installation):
    assert installation.run(STOP_SCRIPT)[0] == "stopped 3.0"


@pytest.mark.slow
def test_what_qpsvm_compile_makes_ready_is_not_compiled_again(installation):
    """One group is tested for all, which take a minute."""
    installation.run("""
from qpsvm.precompile import compile_groups
ready = []
assert compile_groups(["smoothing"], ready.append, 1) == []
assert ready == ["smoothing"]
""")
    again = RUN_SCRIPT.split("from qpsvm.caller")[0] + (
        "from qpsvm.precompile import compile_group\ncompile_group('smoothing')\nprint(compiled)\n"
    )
    assert installation.run(again)[0] == "[]"


def test_a_group_that_fails_is_reported(installation):
    said, _ = installation.run("""
from qpsvm.precompile import compile_groups
print(compile_groups(["no such group"], lambda name: None, 1))
""")
    assert "no such group: Traceback" in said and "KeyError" in said


@pytest.mark.slow
def test_an_installation_carries_the_code_of_the_automatic_choice(installation):
    """The build hook fills the folder in the package; a solve then compiles nothing."""
    installation.run("""
from qpsvm import precompile
assert precompile.compile_into_package(["native"], ["smoothing"], lambda name: None, 1) == []
""")
    assert list((installation.package / "machine_code").rglob("*.nbc"))
    again = RUN_SCRIPT.split("from qpsvm.caller")[0] + (
        "from qpsvm.precompile import compile_group\ncompile_group('smoothing')\nprint(compiled)\n"
    )
    assert installation.run(again)[0] == "[]"


@pytest.mark.slow
def test_a_second_installation_keeps_what_the_first_one_compiled(installation):
    """Every extra is an installation of its own: it must not compile for a minute again."""
    carried = installation.package / "machine_code"
    stale = carried / "an-earlier-state"
    compile_ = """
from qpsvm import precompile
assert precompile.compile_into_package(["native"], ["smoothing"], lambda name: None, 1) == []
"""
    installation.run(compile_)
    stale.mkdir()
    first = {path: path.stat().st_mtime_ns for path in carried.rglob("*.nbc")}
    installation.run(compile_)
    assert first and first == {path: path.stat().st_mtime_ns for path in carried.rglob("*.nbc")}
    assert not stale.exists()


def test_loading_ends_at_a_limit_as_compilation_does():
    function = CodeCache(lambda x: x)
    with Clock(time_limit=0.0).compiling(), pytest.raises(CompilationStopped):
        function.load_overload((), cpu_target.target_context)
    with Clock(time_limit=100.0).compiling():
        assert function.load_overload((), cpu_target.target_context) is None
