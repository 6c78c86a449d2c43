"""The built page of the library against the public names of impl."""

import importlib
import re
from collections.abc import Callable
from types import ModuleType

import pytest

#: The modules whose names users import.
NAMESPACES = (
    "impl",
    "impl.backends",
    "impl.diagnosis",
    "impl.digests",
    "impl.nn",
    "impl.nn.functional",
    "impl.quantized",
    "impl.sparse",
    "impl.testing",
    "impl.utils",
    "impl.utils.data",
)


def public_names(namespace: str) -> list[str]:
    """Returns the names of ``__all__``, or else the functions and classes of a module."""
    module = importlib.import_module(namespace)
    functions = [name for name, value in vars(module).items() if callable(value)]
    names: list[str] = getattr(module, "__all__", functions)
    return [name for name in names if not name.startswith("_")]


@pytest.fixture(scope="module")
def documented(page_html: Callable[[str], str]) -> set[str]:
    """The dotted names of the modules, functions, classes and attributes on the page."""
    return set(re.findall(r'id="(?:module-)?(impl[\w.]*)"', page_html("api")))


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_page_documents_every_public_name_and_module(
    namespace: str, documented: set[str]
) -> None:
    # The page documents a name that two modules export once.
    modules = {namespace, "impl"}
    if namespace == "impl":
        modules |= {"impl.quantized", "impl.random"}
    module, names = importlib.import_module(namespace), public_names(namespace)
    assert [name for name in names if not {f"{m}.{name}" for m in modules} & documented] == []
    submodules = [name for name in names if isinstance(getattr(module, name), ModuleType)]
    assert {namespace, *(f"{namespace}.{name}" for name in submodules)} <= documented


def test_the_page_documents_nothing_that_is_private(documented: set[str]) -> None:
    assert [name for name in documented if "._" in name] == []
