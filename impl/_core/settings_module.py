"""A module whose attributes are settings, and which refuses any other attribute."""

from __future__ import annotations

import difflib
import types
from typing import Any


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
