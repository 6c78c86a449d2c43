"""A line on the terminal about a program that takes long to compile.

XLA may compile a step for a minute, in silence. After five seconds this line appears, once for each
program under ``portable``, if ``sys.stderr`` is a terminal::

    impl: JAX compiles step at train.py:12 (1,204 equations) under guarantee='portable', which may
    take minutes. ...

The environment variable ``SAMEBITS_COMPILE_NOTICE`` is "off", or another number of seconds. A
thread waits for them, which ends with the compilation, also if that raises an error.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from impl._jax import jaxprs, watching
from impl._mode import modes
from impl._portable.device_sums import push
from impl._reading import control_flow

VARIABLE = "SAMEBITS_COMPILE_NOTICE"


def context_of(closed: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Returns what makes the context in which a program is lowered or compiled."""
    stream, chosen = sys.stderr, os.environ.get(VARIABLE) or "5"
    is_silent = chosen in ("off", "0") or getattr(stream, "closed", True) or not stream.isatty()
    if is_silent or not (modes.current().portable or push.asks_for_portable(closed)):
        return contextlib.nullcontext
    try:
        seconds = min(max(0.0, float(chosen)), threading.TIMEOUT_MAX)
    except ValueError:
        allowed = "'off' or a number of seconds"
        raise ValueError(f"the variable {VARIABLE} is {chosen!r}; allowed: {allowed}") from None
    count = _count(jaxprs.opened(closed), {})
    text = (
        f"impl: JAX compiles {watching.function_of(closed)} ({count:,} equations) under "
        "guarantee='portable', which may take minutes. With JAX_COMPILATION_CACHE_DIR=FOLDER the "
        f"next process takes the result from the disk (docs/cost.md). {VARIABLE}=off turns this "
        "line off."
    )
    line = iter([text])

    def say() -> None:
        with contextlib.suppress(OSError, ValueError):  # The terminal may be gone.
            for each in line:
                print(each, file=stream, flush=True)

    @contextlib.contextmanager
    def timed() -> Iterator[None]:
        timer = threading.Timer(seconds, say)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # A process that ends starts no thread.
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    return timed


def _count(jaxpr: Any, known: dict[Any, int]) -> int:
    """Returns the number of equations of a program, in which each call of a function counts."""
    if jaxpr not in known:
        inner = ([body.opened for body in control_flow.bodies(each)] for each in jaxpr.eqns)
        known[jaxpr] = sum(sum(_count(body, known) for body in each) or 1 for each in inner)
    return known[jaxpr]
