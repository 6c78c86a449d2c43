"""The attributes of modules: names that are imported when first used, and settings."""

from __future__ import annotations

import difflib
import importlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any


def names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the function ``__getattr__`` of a package (PEP 562), by its dotted name.

    ``modules`` has the dotted name of the module of each name. A module may be a name itself.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


class SettingsModule(types.ModuleType):
    """The class of a module; a subclass has the settings as properties.

    PyTorch accepts an assignment to a misspelt setting, which then has no effect.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        settings = [key for key in vars(type(self)) if not key.startswith("_")]
        if name not in settings and name not in vars(self) and not name.startswith("_"):
            close = difflib.get_close_matches(name, settings, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise AttributeError(
                f"module {self.__name__!r} has no setting {name!r}, only "
                f"{', '.join(map(repr, settings))}{hint}"
            )
        super().__setattr__(name, value)
