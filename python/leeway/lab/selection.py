"""Experiments by their names on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from leeway.lab.errors import UnknownExperimentError
from leeway.lab.experiment import Experiment, experiments


def select(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names, each once, in the order in which they are registered.

    Parameters
    ----------
    names
        Ids, papers, patterns (``trang2014:fig3.*``), or ``all``.

    Raises
    ------
    UnknownExperimentError
        If a name matches no experiment; the text lists similar names.
    """
    known = experiments()
    wanted = set()
    for name in names:
        found = [
            each.id for each in known.values() if name in ("all", each.id, each.paper) or fnmatchcase(each.id, name)
        ]
        if not found and name != "all":
            raise UnknownExperimentError(_unknown(name, known))
        wanted.update(found)
    return [each for each in known.values() if each.id in wanted]


def load(place: str) -> None:
    """Imports a file (``mine.py``) or a module (``mine.experiments``), so that the experiments in
    it are registered.

    Raises
    ------
    ImportError
        If it cannot be found. Errors inside the file are not changed.
    """
    experiments()  # those of the papers come first
    if not place.endswith(".py"):
        importlib.import_module(place)
        return
    path = Path(place)
    if not path.is_file():
        raise ImportError(f"there is no file {place}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def _unknown(name: str, known: dict[str, Experiment]) -> str:
    papers = list(dict.fromkeys(each.paper for each in known.values()))
    near = get_close_matches(name, [*known, *papers], n=5, cutoff=0.5)
    inside = [each for each in known if name.lower() in each.lower() and each not in near]
    near = [*near, *inside][:5]
    lines = [f"no experiment is called '{name}'."]
    if near:
        lines.append(f"Perhaps one of these was meant: {', '.join(near)}.")
    lines.append(f"There are {', '.join(papers)}, and all; `leeway-lab list` shows each.")
    return " ".join(lines)
