"""The options of XLA that the mode requires, as flags for every program of a process.

``impl.jit`` gives the options to one program. Programs that a library compiles by itself get them
from the environment variable ``XLA_FLAGS``, which XLA reads once, as JAX's backend starts.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from impl._core import jax_internals
from impl._mode import compilation
from impl._mode.compilation import Setting

VARIABLE = "XLA_FLAGS"


def xla_flags() -> str:
    """Returns the compiler options that the mode and the switches require, as flags of XLA.

    ``python -m impl flags`` prints them for the mode on, so that a shell can start any program with
    them: ``XLA_FLAGS="$(python -m impl flags)" python train.py``.
    """
    return " ".join(map(_flag, compilation.settings()))


def set_xla_flags() -> None:
    """Adds the flags of ``impl.xla_flags`` to ``XLA_FLAGS``, for every program of this process.

    The options then hold for programs that a library compiles with a ``jax.jit`` of its own, such
    as ``nnx.jit`` and ``eqx.filter_jit``, and for operations outside of ``jit``. Turn the mode on
    first, and call this before JAX computes anything. Processes that this one starts inherit the
    flags. They stay when the mode changes.

    Raises:
        RuntimeError: JAX's backend has started, so that XLA has read its flags already, and one of
            them is missing.
        ValueError: ``XLA_FLAGS`` has another value for a required flag, or names a file.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if text and not text.startswith("--"):
        raise ValueError(
            f"set_xla_flags(): {VARIABLE} names the file {text!r}: add the flags there"
        )
    given = parsed(text)
    missing = []
    for setting in compilation.settings():
        value = given.get(setting.option)
        if value is None:
            missing.append(setting)
        elif one_spelling(value) != one_spelling(_text(setting)):
            raise ValueError(
                f"set_xla_flags(): {VARIABLE} sets {setting.option} to {value!r}, and the row "
                f"{setting.row} to {_text(setting)!r}: take it out of {VARIABLE}"
            )
    if not missing:
        return
    if jax_internals.backend_has_started():
        raise RuntimeError(
            "set_xla_flags(): JAX's backend has started, and XLA reads its flags only then. Call "
            "this before anything is computed, or start the program with "
            'XLA_FLAGS="$(python -m impl flags)"'
        )
    os.environ[VARIABLE] = " ".join([*([text] if text else []), *map(_flag, missing)])


def parsed(text: str) -> dict[str, str]:
    """Returns the flags in the text of XLA_FLAGS, or in the file that it names, as XLA parses it.

    A flag without a value is ``true``. If a flag occurs twice, the last one counts.
    """
    if text.strip() and not text.lstrip().startswith("--"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}  # XLA ends the process over it, which the doctor reports.
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
