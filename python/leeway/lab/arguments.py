"""The arguments of `leeway-lab`, and its help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

EXIT_CODES = """\
exit codes:
  0    success
  1    an experiment failed; with --check also: a claim differs from what was published and no cause is known
  2    wrong usage, an unknown experiment, or a bad scenario
  3    the system failed: disk full, file not writable, Dask cluster gone
  130  interrupted
After 3 and 130 the same command continues where it stopped, because every result is kept."""

EXAMPLES = """\
examples:
  leeway-lab list                                all experiments
  leeway-lab run rossi2010:fig2a                 one experiment, in seconds
  leeway-lab run rossi2010 --out results         a whole paper; figures, tables and claims into results/
  leeway-lab run trang2014:fig3.4 --sample 300   a stratified part of a very large grid
  leeway-lab run scoreboard:real --sample 16 --law ledbatpp
                                                 one law on 16 networks with real hosts and lines
  leeway-lab sweep examples/home-backup.toml     a scenario of your own
  leeway-lab report rossi2010 --out report       a page with figures and claims, as HTML and Markdown
"""

SELECTION = """\
ID is an experiment (rossi2010:fig2a), a paper (rossi2010), a pattern ('trang2014:fig3.*'), or all."""


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message, file=None):
        """Writes as argparse does, but does not hide an error of writing the help."""
        if message:
            (file or sys.stderr).write(message)


def parser(commands: dict[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """The parser; a command of `commands` is called with the parsed arguments."""
    top = _Parser(
        prog="leeway-lab",
        description="Repeats the experiments of the literature on less-than-best-effort transport, and runs your own.",
        epilog=f"{EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the versions of the package and of the engine")
    adding = top.add_subparsers(metavar="COMMAND", dest="command")
    for name, describe in (("list", _list), ("run", _run), ("sweep", _sweep), ("report", _report), ("cache", _cache)):
        describe(adding, name).set_defaults(carry_out=commands[name])
    return top


def _list(adding: argparse._SubParsersAction, name: str) -> argparse.ArgumentParser:
    command = _add(adding, name, "list the experiments", "Lists the experiments by paper.")
    command.add_argument("ids", nargs="*", metavar="ID", help="experiments to list (default: all)")
    command.add_argument("--runs", action="store_true", help="print the runs of each experiment, quick and full")
    command.add_argument("--json", action="store_true", help="print JSON, with descriptions")
    _load(command)
    return command


def _run(adding: argparse._SubParsersAction, name: str) -> argparse.ArgumentParser:
    about = f"Runs experiments and prints their claims: published, found here, and the verdict.\n\n{SELECTION}"
    command = _add(adding, name, "run experiments and print their claims", about)
    command.add_argument("ids", nargs="+", metavar="ID", help="experiments to run: ids, papers, patterns or all")
    _size(command)
    _means(command)
    _load(command)
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="write figures (PNG, SVG), tables and claims (CSV) into this folder"
    )
    _check(command)
    return command


def _sweep(adding: argparse._SubParsersAction, name: str) -> argparse.ArgumentParser:
    about = """\
Runs a scenario file: every combination of its [sweep], with the seeds of its repetitions. Without --out it prints means
with 95 % confidence intervals; with it, it writes every metric, a row for each group of flows, window and run."""
    command = _add(adding, name, "run a scenario file with its sweep", about)
    command.add_argument("file", type=Path, metavar="FILE", help="scenario file (TOML); docs/scenarios.md describes it")
    command.add_argument("--seeds", type=_positive, metavar="N", help="seeds of each point (default: its repetitions)")
    command.add_argument("--out", type=Path, metavar="FILE", help="table to write; its name ends in .parquet or .csv")
    _means(command)
    return command


def _report(adding: argparse._SubParsersAction, name: str) -> argparse.ArgumentParser:
    about = (
        f"Runs experiments and writes a report with all figures and claims: one HTML file, and Markdown.\n\n{SELECTION}"
    )
    command = _add(adding, name, "write a report of experiments", about)
    command.add_argument("ids", nargs="*", metavar="ID", help="experiments to report (default: all)")
    _size(command)
    _means(command)
    _load(command)
    command.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("report"), help="folder to write to (default: report/)"
    )
    _check(command)
    return command


def _cache(adding: argparse._SubParsersAction, name: str) -> argparse.ArgumentParser:
    about = """\
Results are kept, so that nothing is simulated twice. info shows the contents, prune removes the results of other engine
versions, clear removes everything."""
    command = _add(adding, name, "look at or empty the cache of results", about)
    command.add_argument("action", choices=("info", "prune", "clear"), nargs="?", default="info")
    _cache_file(command)
    return command


def _add(adding: argparse._SubParsersAction, name: str, short: str, about: str) -> argparse.ArgumentParser:
    return adding.add_parser(
        name, help=short, description=about, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _size(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("how much to run")
    group.add_argument(
        "--full", action="store_true", help="run the published grid, not only a small part that shows the same"
    )
    group.add_argument("--seeds", type=_positive, metavar="N", help="runs of each case, with the seeds 1 to N")
    group.add_argument(
        "--sample",
        type=_positive,
        metavar="N",
        help="only N runs of a very large grid, drawn in a stratified way, or N networks of a scoreboard",
    )
    group.add_argument(
        "--law",
        action="append",
        default=[],
        metavar="LAW",
        help="show only this law and the bounds on a scoreboard, spelled as in scenarios (ledbat:target=60ms); may be "
        "repeated",
    )
    group.add_argument(
        "--half",
        choices=("tuning", "report"),
        default="tuning",
        help="half of the networks of scoreboard:wide: for tuning (default), or for the report",
    )


def _means(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("how to run it")
    group.add_argument("--workers", type=_positive, metavar="N", help="runs at a time (default: number of cores)")
    group.add_argument(
        "--engine",
        choices=("local", "dask"),
        help="run on the cores of this machine (default), or on a Dask cluster",
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="scheduler of the cluster (tcp://host:8786) or its scheduler file (.json); implies --engine dask. Without "
        "it, --engine dask starts processes on this machine",
    )
    _cache_file(group)


def _cache_file(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="file that keeps the results (default: $LEEWAY_CACHE or ~/.cache/leeway/results.sqlite)",
    )


def _load(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a file or module with experiments of your own; may be repeated",
    )


def _check(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--check", action="store_true", help="exit with 1 if a claim differs and no cause is known: for scripts"
    )


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of 1 or more")
    return number
