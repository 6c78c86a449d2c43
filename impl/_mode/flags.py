"""The options of XLA that the mode requires, as flags for every program of a process.

``impl.jit`` gives the options to one program. Programs that a library compiles by itself get them
from the environment variable ``XLA_FLAGS``, which XLA reads once, as JAX's backend starts. The mode
sets them when it is turned on for the process.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Iterable
from pathlib import Path

import spec
from impl import _jax
from impl._mode import compilation
from impl._mode.compilation import Setting

VARIABLE = "XLA_FLAGS"
#: The warnings that this process has given.
_warned: set[str] = set()


def xla_flags() -> str:
    """Returns the compiler options that the mode and the switches require, as flags of XLA.

    ``python -m impl flags`` prints them for the mode on, so that a shell can start any program with
    them: ``XLA_FLAGS="$(python -m impl flags)" python train.py``.
    """
    return " ".join(map(_flag, compilation.settings()))


def set_xla_flags() -> None:
    """Adds the flags of ``impl.xla_flags`` to ``XLA_FLAGS``, for every program of this process.

    ``impl.use_deterministic_algorithms(True)`` does it too. The options then hold for programs that
    a library compiles with a ``jax.jit`` of its own, such as ``nnx.jit`` and ``eqx.filter_jit``,
    and for operations outside of ``jit``. Call this inside ``with impl.deterministic():`` to have
    the flags without the mode, before JAX computes anything. Processes that this one starts inherit
    the flags. They stay when the mode changes.

    Raises:
        RuntimeError: JAX's backend has started, so that XLA has read its flags already, and one of
            them is missing.
        ValueError: ``XLA_FLAGS`` has another value for a required flag, or names a file that lacks
            one.
    """
    required = compilation.settings()
    error = _contradiction(required) or _add(required)
    if error is not None:
        raise type(error)(f"set_xla_flags(): {error}")


def set_for_process() -> None:
    """Adds the flags that the mode of the process requires, or warns if it is too late.

    It warns once in a process, and only if the flags may apply to a device in use.
    """
    required = compilation.settings_of_process()
    for error in (_add(required), _contradiction(required)):
        if error is None or str(error) in _warned or not _may_apply(required):
            continue
        _warned.add(str(error))
        warnings.warn(
            "impl.use_deterministic_algorithms(True): the mode is on, but XLA may pick kernels of "
            f"products and convolutions by timing them, outside of impl.jit. {error}",
            RuntimeWarning,
            stacklevel=3,
        )


def _contradiction(required: Iterable[Setting]) -> ValueError | None:
    """Returns an error if XLA_FLAGS has another value for a flag."""
    given = parsed(os.environ.get(VARIABLE, ""))
    for setting in required:
        value = given.get(setting.option)
        if value is not None and one_spelling(value) != one_spelling(_text(setting)):
            return ValueError(
                f"{VARIABLE} sets {setting.option} to {value!r}, but the row {setting.row} "
                f"requires {_text(setting)!r}: take it out of {VARIABLE}"
            )
    return None


def _add(required: Iterable[Setting]) -> Exception | None:
    """Adds the flags that XLA_FLAGS lacks, or returns the reason why it cannot."""
    text = os.environ.get(VARIABLE, "").strip()
    given = parsed(text)
    missing = [_flag(setting) for setting in required if setting.option not in given]
    if not missing:
        return None
    if text and not text.startswith("--"):
        return ValueError(f"{VARIABLE} names the file {text!r}: add {' '.join(missing)} there")
    if _jax.backend_has_started():
        return RuntimeError(
            "JAX's backend has started, and XLA reads its flags only then. Call this before "
            "anything is computed, or start the program with "
            f'{VARIABLE}="$(python -m impl flags)"'
        )
    os.environ[VARIABLE] = " ".join([*([text] if text else []), *missing])
    return None


def _may_apply(required: Iterable[Setting]) -> bool:
    """Returns whether a platform that the flags apply to is in use, or may be."""
    rules = spec.load()
    rows = [rules.row(setting.row) for setting in required]
    devices = [
        device for device in rules.devices.values() if any(row.covers(device.name) for row in rows)
    ]
    names = {name for device in devices for name in (*device.platforms, *device.backends)}
    used = _jax.platforms_in_use()
    return used is None or not names.isdisjoint(used)


def parsed(text: str) -> dict[str, str]:
    """Returns the flags in the text of XLA_FLAGS, or in the file that it names, as XLA parses it.

    A flag without a value is ``true``. If a flag occurs twice, the last one counts.
    """
    if text.strip() and not text.lstrip().startswith("--"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}  # XLA ends the process because of such a file. The doctor reports it.
    try:
        words = shlex.split(text)
    except ValueError:  # A quotation mark is not closed.
        words = text.split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name: value if given else "true" for name, given, value in pairs}


def _flag(setting: Setting) -> str:
    return f"--{setting.option}={_text(setting)}"


def _text(setting: Setting) -> str:
    return str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value)


def one_spelling(value: str) -> str:
    """Returns the value of a flag, with a bool spelled ``true`` or ``false``."""
    return {"1": "true", "0": "false"}.get(value, value)
