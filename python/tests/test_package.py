"""The package as a whole: what it exports, what it says about it."""

import ast
import inspect
import re
from pathlib import Path

import leeway
from leeway import _core

FOLDER = Path(leeway.__file__).parent


def test_the_stubs_are_of_what_is_there():
    stubs = ast.parse((FOLDER / "_core.pyi").read_text())
    written = {}
    for node in stubs.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            written[node.name] = node
    assert set(written) | {"ENGINE"} == {name for name in dir(_core) if not name.startswith("_")}
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
