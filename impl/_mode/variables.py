"""The environment variables that turn the mode on when ``impl`` is imported.

They give the arguments of ``impl.use_deterministic_algorithms`` without a change of the program::

    SAMEBITS_MODE=on SAMEBITS_GUARANTEE=portable python train.py
"""

from __future__ import annotations

import os

import spec
from impl._mode import modes

MODE = "SAMEBITS_MODE"
GUARANTEE = "SAMEBITS_GUARANTEE"
PROFILE = "SAMEBITS_PROFILE"
#: The arguments ``mode`` and ``warn_only`` for each value.
_MODES = {
    "on": (True, False),
    "1": (True, False),
    "warn": (True, True),
    "off": (False, False),
    "0": (False, False),
}


def turn_on() -> None:
    """Calls ``use_deterministic_algorithms`` if a variable is set to a value that is not empty.

    The guarantee or the profile alone turns the mode on too.

    Raises:
        ValueError: A variable has a value that is not allowed.
    """
    given = {name: os.environ.get(name) or None for name in (MODE, GUARANTEE, PROFILE)}
    if not any(given.values()):
        return
    allowed = {MODE: _MODES, GUARANTEE: modes.GUARANTEES, PROFILE: spec.load().profiles}
    for name, value in given.items():
        if value is not None and value not in allowed[name]:
            raise ValueError(
                f"the environment variable {name} is {value!r}; allowed: "
                f"{', '.join(map(repr, allowed[name]))}"
            )
    mode, warn_only = _MODES[given[MODE] or "on"]
    modes.use_deterministic_algorithms(
        mode, warn_only=warn_only, profile=given[PROFILE], guarantee=given[GUARANTEE]
    )
