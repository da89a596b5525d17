"""The program `leeway-lab`: lists and runs experiments, sweeps and reports."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tqdm.contrib.logging import logging_redirect_tqdm

import leeway
from leeway.lab import arguments, selection, sweep, words
from leeway.lab.cache import Cache
from leeway.lab.driver import Finished, Tally, run_cases, run_experiment
from leeway.lab.engines import Dask, Engine, Local
from leeway.lab.errors import LabError, RunError, UnknownExperimentError
from leeway.lab.experiment import Experiment, Setting
from leeway.lab.progress import Bar

log = logging.getLogger("leeway.lab")

OK, FAILED, USAGE, SURROUNDINGS, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns the exit code.

    As a program (without `argv`) an interrupt ends the process at once, without waiting for
    unfinished runs.
    """
    parser = arguments.parser({"list": _list, "run": _run, "sweep": _sweep, "report": _report, "cache": _cache})
    try:
        try:
            args = parser.parse_args(argv)
        finally:
            sys.stdout.flush()
        args.called = ["leeway-lab", *(argv if argv is not None else sys.argv[1:])]
        code = _carried_out(args, parser)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _say("interrupted. Every result that came in is kept; the same command goes on from there")
        if argv is None:
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it
        _end_output()
        return OK
    except (UnknownExperimentError, ImportError, leeway.ScenarioError, UsageError) as error:
        _error(str(error))
        return USAGE
    except RunError as error:
        _error(str(error))
        return FAILED
    except LabError as error:
        _error(str(error))
        return SURROUNDINGS
    except OSError as error:
        _error(f"{error.filename or 'a file or the output'}: {error.strerror or error}")
        if error.filename is None:
            _end_output()
        return SURROUNDINGS


def _end_output() -> None:
    """Discards unwritten output, so that Python does not try to write it again at its end."""
    with suppress(OSError, ValueError):  # an output that is no file has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _carried_out(args: Namespace, parser: ArgumentParser) -> int:
    if args.version:
        print(f"leeway {leeway.ENGINE.partition('+')[0]}, engine {leeway.ENGINE}")
        return OK
    if args.command is None:
        parser.print_help()
        return USAGE
    with _warnings_above_the_bar():
        return args.carry_out(args)


class UsageError(Exception):
    """Invalid arguments; the text says why."""


def _list(args: Namespace) -> int:
    chosen = _selected(args.ids or ["all"], args.load)
    entries = [_entry(each, args.runs) for each in chosen]
    if args.json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return OK
    columns = ["id", "title", *(["quick", "full"] if args.runs else [])]
    rows = [
        [e["id"], e["title"], *([f"{e['runs_quick']:,}", f"{e['runs_full']:,}"] if args.runs else [])] for e in entries
    ]
    print(words.table_text(columns, rows, right=2))
    return OK


def _entry(experiment: Experiment, runs: bool) -> dict[str, str | int]:
    entry: dict[str, str | int] = {
        "id": experiment.id,
        "paper": experiment.paper,
        "title": experiment.title,
        "kind": experiment.kind,
        "description": experiment.description,
    }
    if runs:
        entry["runs_quick"] = len(experiment.first_cases(Setting()))
        entry["runs_full"] = len(experiment.first_cases(Setting(full=True)))
    return entry


def _run(args: Namespace) -> int:
    chosen = _selected(args.ids, args.load)
    if args.out is not None:
        from leeway.lab import export  # imports matplotlib, which takes a while

        export.files.prepare(args.out)
    finished = []
    with ExitStack() as stack:
        cache, engine = _means(args, stack)
        for each in _finished(chosen, args, engine, cache):
            finished.append(each)
            print(f"{words.finished_text(each)}\n", flush=True)
            if args.out is not None:
                export.export(each, args.out)
    print(words.summary_text(finished) + (f"; figures and tables are in {args.out}" if args.out else ""))
    return _code(finished, args.check)


def _report(args: Namespace) -> int:
    from leeway.lab import report

    begin = time.perf_counter()
    chosen = _selected(args.ids or ["all"], args.load)
    report.files.prepare(args.out)
    with ExitStack() as stack:
        cache, engine = _means(args, stack)
        finished = []
        for each in _finished(chosen, args, engine, cache):
            finished.append(each)
            print(
                f"{each.experiment.id}: {words.took(each)}" + (f"; failed: {each.error}" if each.error else ""),
                flush=True,
            )
        context = report.Context.here(shlex.join(args.called), time.perf_counter() - begin)
        page = report.write(finished, args.out, context)
    print(f"{words.summary_text(finished)}; the report is in {page}")
    return _code(finished, args.check)


def _sweep(args: Namespace) -> int:
    try:
        cases = sweep.cases(leeway.Scenario.load(args.file), args.seeds)
        if args.out is not None:
            sweep.check_name(args.out)
    except ValueError as error:
        raise UsageError(str(error)) from error
    tally, begin = Tally(), time.perf_counter()
    with ExitStack() as stack:
        cache, engine = _means(args, stack)
        results = run_cases(cases, engine, cache, Bar(), tally, args.file.name)
        if args.out is None:
            columns, rows = sweep.means(results)
            print(words.table_text(columns, rows, right=len(columns) - len(sweep.SHOWN)))
        else:
            sweep.write(results, args.out)
    cached = f" ({len(tally.cached):,} from the cache)" if tally.cached else ""
    wall = words.span(time.perf_counter() - begin)
    where = f"; the table is in {args.out}" if args.out else ""
    _say(f"{words.count(len(tally.seconds), 'run')}{cached} in {wall}{where}")
    return OK


def _cache(args: Namespace) -> int:
    with Cache(args.cache) as cache:
        if args.action == "info":
            print(words.cache_text(cache))
        else:
            removed = cache.clear() if args.action == "clear" else cache.prune()
            print(f"{cache.path}: removed {words.count(removed, 'result')}")
    return OK


def _selected(ids: Iterable[str], load: Iterable[str]) -> list[Experiment]:
    for place in load:
        selection.load(place)
    return selection.select(ids)


def _means(args: Namespace, stack: ExitStack) -> tuple[Cache, Engine]:
    cache = stack.enter_context(Cache(args.cache))
    if args.dask or args.engine == "dask":
        if args.engine == "local":
            raise UsageError("--dask ADDRESS needs the engine dask, not local")
        engine: Engine = Dask(args.dask, args.workers)
        for name in ("distributed", "distributed.client"):  # the lab prints its own messages
            logging.getLogger(name).setLevel(logging.CRITICAL)
    else:
        engine = Local(args.workers)
    return cache, stack.enter_context(engine)


def _finished(chosen: Iterable[Experiment], args: Namespace, engine: Engine, cache: Cache) -> Iterable[Finished]:
    setting = _setting(chosen, args)
    for experiment in chosen:
        yield run_experiment(experiment, setting, engine, cache, Bar())


def _setting(chosen: Iterable[Experiment], args: Namespace) -> Setting:
    others = [each.id for each in chosen if each.kind != "scoreboard"]
    if args.law and others:
        raise UsageError(f"--law is for scoreboards, and {others[0]} is none; `leeway-lab list scoreboard` shows them")
    for name in args.law:
        try:
            leeway.law(name)
        except ValueError as error:
            raise UsageError(f"--law {name}: {error}") from error
    return Setting(full=args.full, seed_count=args.seeds, sample=args.sample, laws=tuple(args.law), half=args.half)


def _code(finished: Sequence[Finished], check: bool) -> int:
    failed = any(each.outcome is None for each in finished)
    return FAILED if failed or (check and words.unexplained(finished)) else OK


@contextmanager
def _warnings_above_the_bar() -> Iterator[None]:
    """Prints what the lab logs, without tearing the progress bar."""
    lab = logging.getLogger("leeway")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("leeway-lab: %(message)s"))
    lab.addHandler(handler)
    try:
        with logging_redirect_tqdm([lab]):
            yield
    finally:
        lab.removeHandler(handler)


def _say(text: str) -> None:
    print(f"leeway-lab: {text}", file=sys.stderr, flush=True)


def _error(text: str) -> None:
    separator = "\n" if "\n" in text else " "  # text of several lines begins on a new line
    _say(f"error:{separator}{text}")
