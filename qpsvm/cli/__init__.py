"""The command ``qpsvm``: machines from data files, models in LIBSVM's format, proofs, the demo."""

from __future__ import annotations

from collections.abc import Sequence

import click

from qpsvm.cli.bench import bench
from qpsvm.cli.demo import demo
from qpsvm.cli.inspect import info, verify
from qpsvm.cli.path import path
from qpsvm.cli.predict import predict
from qpsvm.cli.scale import scale
from qpsvm.cli.train import train
from qpsvm.cli.upkeep import compile_all, methods
from qpsvm.errors import InputError, MethodMismatchError

WRONG_INPUT_CODE = 2
"""Exit code where an argument or a file is wrong."""

INTERRUPTED_CODE = 130
"""Exit code after Ctrl-C."""

COMMANDS_IN_ORDER = (train, predict, scale, info, verify, path, bench, methods, compile_all, demo)
"""The commands, in the order of the help."""


class _InOrder(click.Group):
    """A group whose help lists the commands in the order of `COMMANDS_IN_ORDER`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _version() -> str:
    from qpsvm import __version__

    return __version__


@click.group(
    cls=_InOrder,
    commands={command.name or "": command for command in COMMANDS_IN_ORDER},
    epilog="qpsvm COMMAND --help has the options of a command and an example. Exit codes: 0 done; "
    "1 not done, such as a gap not reached; 2 wrong arguments or input; 130 after Ctrl-C.",
)
@click.version_option(_version(), message="qpsvm %(version)s")
def group() -> None:
    """Support vector machines and related quadratic programs, solved with a certified gap."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the name of the command; those of the process by default.

    Returns
    -------
    int
        0 for success, 1 where a task failed, 2 for wrong arguments or input, 130 after Ctrl-C.
    """
    try:
        given = None if argv is None else list(argv)
        code = group.main(args=given, prog_name="qpsvm", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        return WRONG_INPUT_CODE
    except click.ClickException as problem:
        problem.show()
        return WRONG_INPUT_CODE
    except (InputError, MethodMismatchError) as problem:
        click.echo(f"qpsvm: {problem}", err=True)
        return WRONG_INPUT_CODE
    except (KeyboardInterrupt, click.Abort):
        click.echo("qpsvm: interrupted", err=True)
        return INTERRUPTED_CODE
    return int(code or 0)
