"""The public API: the names that ``dir`` shows, the modules that users may import, docstrings."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from pathlib import Path

import pytest

import impl

ROOT = Path(impl.__file__).parents[1]


def is_private(dotted):
    return any(part.startswith("_") for part in dotted.split("."))


def modules():
    found = pkgutil.walk_packages(impl.__path__, "impl.")
    return [m.name for m in found if not m.name.startswith("impl.tests")]


#: The modules that a user may import.
PUBLIC = [name for name in modules() if not is_private(name)]
#: Packages whose modules hold ops, and the package that exports these ops.
EXPORTED_BY = {
    "impl.ops": "impl",
    "impl.sparse": "impl.sparse",
    "impl.nn": "impl.nn",
    "impl.nn.functional": "impl.nn.functional",
}


def is_package(module):
    return hasattr(importlib.import_module(module), "__path__")


OPS = [n for n in modules() if n.rpartition(".")[0] in EXPORTED_BY and not is_package(n)]

#: Classes whose objects are only made by another class, which is named in brackets.
MADE_BY_OTHERS = {"impl.utils.data.DataLoaderIterator"}  # (DataLoader)


def exported(module):
    """The names of a module that users may import from it, with their values."""
    namespace = importlib.import_module(module)
    names = getattr(namespace, "__all__", None)
    if names is None:
        prefix = "impl." if is_package(module) else module
        names = [
            name
            for name, value in vars(namespace).items()
            if not name.startswith("_")
            and (inspect.isfunction(value) or inspect.isclass(value))
            and value.__module__.startswith(prefix)
        ]
    return {name: getattr(namespace, name) for name in names}


def callables():
    """The public functions and classes by dotted name."""
    return {
        f"{module}.{name}": value
        for module in ["impl", *PUBLIC]
        if module not in OPS
        for name, value in exported(module).items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }


CALLABLES = callables()


def test_dir_and_star_give_the_api_and_nothing_else():
    names = {}
    exec("from impl import *", names)
    del names["__builtins__"]
    assert dir(impl) == sorted(impl.__all__) == sorted(names)
    assert len(set(impl.__all__)) == len(impl.__all__)
    plain = {name for name in vars(impl) if not name.startswith("_")}
    assert plain - {"tests"} == set(impl.__all__)


def test_a_module_with_a_plain_name_is_in_the_api():
    top = {name.split(".")[1] for name in PUBLIC} - {"__main__"}
    shown = {name for name, value in vars(impl).items() if isinstance(value, types.ModuleType)}
    assert {name for name in shown if not name.startswith("_")} - {"tests"} == top
    assert top <= set(impl.__all__)


def test_a_package_exports_the_ops_of_its_modules():
    ops = {}
    for module in OPS:
        package = EXPORTED_BY[module.rpartition(".")[0]]
        for name, value in vars(importlib.import_module(module)).items():
            is_op = inspect.isfunction(value) and hasattr(value, "__wrapped__")
            if is_op and value.__module__ == module:
                ops[package, name] = value
    assert len(ops) > 60
    exports = {key: getattr(importlib.import_module(key[0]), key[1], None) for key in ops}
    assert exports == ops


@pytest.mark.parametrize("package", ["spec", "impl", "conformance"])
def test_type_checkers_read_the_types_of_a_package(package):
    assert (ROOT / package / "py.typed").is_file()


def python_of(page):
    """The Python of a page: a script, or the code blocks of a text."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return [text]
    return [
        textwrap.dedent(code)
        for code in re.findall(r"^ *```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize(
    "page",
    [
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "examples").glob("*.py")),
        *ROOT.glob("README.md"),
    ],
    ids=lambda page: page.name,
)
def test_no_example_uses_a_private_name(page):
    for code in python_of(page):
        imported = []
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                imported += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported += [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                imported.append(ast.unparse(node))
        own = [name for name in imported if name.split(".")[0] in ("impl", "spec", "conformance")]
        assert [name for name in own if is_private(name)] == []


# Docstrings. The lint does not ask for them.


def sections(docstring):
    """The sections of a docstring in Google's style, by name; the summary has the name ''."""
    parts = re.split(r"^(\w+):(?:\n| +)", docstring, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(section):
    """The names that a section describes, one a line: ``name: ...`` or ``name (type): ...``."""
    return re.findall(r"^ {0,4}\*{0,2}(\w+)(?: \(.*?\))?:", section, re.MULTILINE)


def raises(function):
    """Returns whether the body of a function raises an exception."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


#: How a docstring refers to the function that documents its arguments.
REFERENCE = re.compile(
    r"\A\w+ (?:\w+ as|what) ``(\w+)`` does"
    r"|^Arguments, results and exceptions are as for ``(\w+)``",
    re.MULTILINE,
)


def documentation(value, module):
    """The sections of a docstring, with the sections of the function that it refers to."""
    own = sections(inspect.getdoc(value) or "")
    reference = REFERENCE.search(own[""])
    if reference is None:
        return own
    other = getattr(importlib.import_module(module), reference[1] or reference[2])
    inherited = documentation(other, module)
    return {**inherited, **own, "": f"{own['']}\n\n{inherited['']}"}


def faults(name):
    """Yields what the docstring of a function or class lacks."""
    value, module = CALLABLES[name], name.rpartition(".")[0]
    parts = documentation(value, module)
    summary = parts[""].strip().partition("\n\n")[0]
    if not summary.endswith((".", ":", "``")):
        yield "a summary that is a sentence"
    signature = inspect.signature(value)
    arguments = described(parts.get("Args", "") + parts.get("Attributes", ""))
    if name not in MADE_BY_OTHERS:
        missing = [p for p in signature.parameters if p not in arguments]
        yield from (f"argument {p}" for p in missing if f"``{p}``" not in parts[""])
    if inspect.isfunction(value):
        is_described = {"Returns", "Yields"} & set(parts) or summary.startswith("Returns ")
        returns = signature.return_annotation not in (None, "None")
        if signature.parameters and returns and not is_described:
            yield "Returns"
        if raises(value) and "Raises" not in parts:
            yield "Raises"
    else:
        for method, member in vars(value).items():
            is_own = inspect.isfunction(member) or type(member) is property
            if is_own and not method.startswith("_") and not inspect.getdoc(member):
                yield f"a docstring of {method}"


def test_docstrings_of_functions_classes_and_methods():
    assert {name: found for name in CALLABLES if (found := list(faults(name)))} == {}
