"""``qpsvm demo``: real data, solved by every method."""

from __future__ import annotations

from pathlib import Path

import click

from qpsvm.cli.options import ExampleCommand, FileToWrite


@click.command(
    "demo",
    cls=ExampleCommand,
    short_help="solve bundled real data by every method and draw a picture",
    example="qpsvm demo --quick --time-limit 2 --output demo.png",
)
@click.option("--output", metavar="FILE", type=FileToWrite(), default="qpsvm-demo.png",
              show_default=True, help="File of the picture.")  # fmt: skip
@click.option("--no-plot", is_flag=True, help="Draw no picture.")
@click.option("--quick", is_flag=True, help="Take a quarter of the points.")
@click.option("--time-limit", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
              default=20.0, show_default=True, help="Time limit of each solve.")  # fmt: skip
def demo(output: Path, no_plot: bool, quick: bool, time_limit: float) -> int:
    """Solve L2-SVM, hinge SVM, polytope distance and smallest ball on data of scikit-learn.

    Every method that fits solves each; the values are compared with cvxpy's where it is installed.
    """
    from qpsvm.demo.run import run

    return run(output, picture=not no_plot, quick=quick, time_limit=time_limit)
