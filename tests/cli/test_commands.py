"""The command as a whole: help, examples, exit codes, what it loads."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import qpsvm
from qpsvm import cli, formulations
from qpsvm.cli.upkeep import budget_text
from qpsvm.solvers.methods import METHODS

BEFORE_EXAMPLE = {
    "predict": ["train train.txt train.model"],
    "verify": ["train train.txt --proof proof.npz"],
}
"""What must be called before the example of a command, since it reads a file of another."""

WRITTEN_BY_EXAMPLE = {
    "train": ["train.model", "gap.png"],
    "predict": ["labels.txt"],
    "scale": ["ranges.txt", "scaled.txt"],
    "path": ["path.png"],
    "demo": ["demo.png"],
}

EXAMPLE_CALLS = [
    # it compiles everything: minutes, where nothing is compiled yet
    pytest.param(
        command, marks=[pytest.mark.slow] if command.name == "compile" else [], id=command.name
    )
    for command in cli.COMMANDS_IN_ORDER
]


@pytest.mark.parametrize("command", EXAMPLE_CALLS)
def test_the_example_of_each_help_runs(command, within, capsys):
    assert cli.main([command.name, "--help"]) == 0
    last = capsys.readouterr().out.rstrip().splitlines()[-1].strip()
    program, *words = shlex.split(last)
    assert program == "qpsvm" and words[0] == command.name
    for line in BEFORE_EXAMPLE.get(command.name, []):
        assert cli.main(line.split()) == 0
    before = set(within.iterdir())
    assert cli.main(words) == 0
    assert capsys.readouterr().out or command.name in ("scale", "compile")
    written = {path.name for path in set(within.iterdir()) - before}
    assert written == set(WRITTEN_BY_EXAMPLE.get(command.name, []))


def test_the_commands_of_the_page_run_one_after_the_other(within, capsys):
    page = (Path(__file__).resolve().parents[2] / "docs/command_line.md").read_text(
        encoding="utf-8"
    )
    block = re.search(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = block.group(1).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert cli.main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out.rstrip().endswith("Verified.")
    table = set(re.findall(r"^\| `(\w+)[ `]", page.split("## Commands")[1].split("##")[0], re.M))
    assert table == {command.name for command in cli.COMMANDS_IN_ORDER}


def test_every_option_has_a_help_and_every_command_a_first_line(capsys):
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    for command in cli.COMMANDS_IN_ORDER:
        assert re.search(rf"^  {command.name} +\w", said, re.MULTILINE)
        given = [p for p in command.params if isinstance(p, click.Option)]
        assert all(option.help for option in given), command.name


def test_help_loads_nothing_heavy(fresh_process):
    code = """
import sys
from qpsvm.cli import main
heavy = "numba", "sklearn", "tqdm", "matplotlib", "joblib"
main(["--help"]), main(["train", "--help"])
print([name for name in heavy if name in sys.modules])
"""
    said = fresh_process(code)
    assert re.findall(r"^\[.*\]$", said, re.MULTILINE) == ["[]"]


def test_methods_lists_every_method_with_what_it_promises(capsys):
    assert cli.main(["methods"]) == 0
    said = capsys.readouterr().out
    for name, method in METHODS.items():
        start = said.index(f"{name} ")
        assert method.summary in said[start:]
        assert f"gap {method.gap:.0e} within {budget_text(method.budget)}" in said[start:]
        assert method.source in said[start:]
    for formulation in formulations.__all__:
        assert formulation == "Formulation" or re.search(rf"solves .*\b{formulation}\b", said)
    assert "problems over other domains" not in said


def test_module_runs_as_the_command(fresh_process):
    code = """
import runpy, sys
sys.argv = ["qpsvm", "--version"]
runpy.run_module("qpsvm", run_name="__main__")
"""
    assert fresh_process(code).strip() == f"qpsvm {qpsvm.__version__}"


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"qpsvm {qpsvm.__version__}"


@pytest.mark.parametrize(
    "line, said",
    [
        ("", "Usage: qpsvm"),
        ("nothing", "No such command 'nothing'"),
        ("demo --time-limit soon", "--time-limit"),
        ("demo --time-limit 0", "--time-limit"),
        ("demo --output no/such/folder/x.png", "--output"),
        ("train", "Missing argument 'DATA'"),
        ("train -t 5 train.txt", "'5' is not one of 'linear'"),
        ("train -c 0 train.txt", "'-c' / '--cost'"),
        ("train -g -1 train.txt", "neither a number >= 0 nor"),
        ("train -w1 0 train.txt", "-w1 must be a finite number > 0; got 0"),
        ("train -s 3 -w1 2 train.txt", "-w is for the type c-svc"),
        ("train -s 2 -b 1 train.txt", "-b 1 is for classes and regressions"),
        ("train values.txt", "labels of classes must be integers; got 5.1 of point 1"),
        ("train train.txt no/such/folder/x.model", "MODEL must lie in a folder that exists"),
        ("train none.txt", "got 'none.txt'"),
        ("train --method gilbert train.txt", "method 'gilbert' cannot solve HingeDual"),
        ("train -t 4 train.txt", "expected 0:number, the column of the point's own kernel values"),
        ("predict train.txt train.txt", "line 1: expected svm_type"),
        ("predict -b 2 train.txt train.txt", "-b"),
        ("scale -l 2 train.txt", "-l must be below -u; got 2 and 1"),
        ("scale -y 1 1 train.txt", "-y needs a lower and an upper end; got 1 and 1"),
        ("scale -s a -r b train.txt", "-s and -r exclude each other"),
        ("scale -r train.txt train.txt", "line 1: expected x, or y first"),
        ("path -c 1,x train.txt", "-c must be numbers > 0"),
        ("path -c 1:0.1:3 train.txt", "-c must be numbers > 0"),
        ("path iris.txt", "the data must have two classes; got 3"),
        ("bench --methods smo,gilbert train.txt", "--methods must be among"),
        ("info none.txt", "got 'none.txt'"),
        ("verify none.npz train.txt", "there is no file none.npz"),
        ("verify train.txt train.txt", "path must name a result file of qpsvm"),
    ],
)
def test_a_wrong_call_exits_with_2_and_says_what_is_wrong(line, said, call):
    code, out, err = call(line)
    assert code == 2 and not out
    assert said in err
    assert "Traceback" not in err
