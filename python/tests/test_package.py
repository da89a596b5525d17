"""The package as a whole: what it exports, what it says about it."""

import ast
import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import leeway
from leeway import _core

FOLDER = Path(leeway.__file__).parent


def test_the_stubs_are_of_what_is_there():
    stubs = ast.parse((FOLDER / "_core.pyi").read_text())
    written, constants = {}, set()
    for node in stubs.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            written[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            constants.add(node.target.id)
    assert set(written) | constants == {name for name in dir(_core) if not name.startswith("_")}
    assert all(isinstance(getattr(_core, name), str) for name in constants)
    for name, node in written.items():
        found = getattr(_core, name)
        if isinstance(node, ast.FunctionDef):
            arguments = [argument.arg for argument in node.args.args]
            assert list(inspect.signature(found).parameters) == arguments, name
        else:
            methods = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)} - {"__init__"}
            public = {method for method in dir(found) if not method.startswith("_")}
            assert public == {method for method in methods if not method.startswith("_")}, name
            assert all(hasattr(found, method) for method in methods)


def test_the_package_says_what_it_is():
    assert (FOLDER / "py.typed").exists()
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{16}", leeway.ENGINE)
    assert leeway.ENGINE.startswith(leeway.__version__ + "+")
    assert sorted(leeway.__all__) == sorted(set(leeway.__all__))


def test_what_is_public_is_documented():
    for name in leeway.__all__:
        found = getattr(leeway, name)
        if not callable(found):
            continue
        assert inspect.getdoc(found), name
        for method_name, method in inspect.getmembers(found, inspect.isfunction):
            if not method_name.startswith("_"):
                assert inspect.getdoc(method), f"{name}.{method_name}"


def test_everything_that_the_lab_needs_is_pinned():
    """python/constraints.txt has the version of each library that is installed."""
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    lines = (FOLDER.parent / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert len(pinned) == len(lines)
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    found = {canonicalize_name("maturin"): metadata.version("maturin")}
    queue = [(Requirement(each), "") for each in wanted]
    seen = set()
    while queue:
        requirement, extra = queue.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = metadata.version(name)
        for chosen in ("", *requirement.extras):
            if (name, chosen) not in seen:
                seen.add((name, chosen))
                queue += [(Requirement(each), chosen) for each in metadata.requires(name) or ()]
    assert {name: version for name, version in found.items() if pinned.get(name) != version} == {}
