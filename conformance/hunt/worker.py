"""The process that runs programs: it reads requests and writes answers, a line of JSON each.

A request has the text of a program and names the parts of the answer::

    {"source": "...", "asks": ["digests"], "mode": "portable", "wide": false}
    {"digests": ["9f86d081884c7d65"], "seconds": 0.4}

An exception becomes an answer, too. A crash of XLA ends the process, and the parent starts another.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from conformance.hunt.prelude import (
    DEPTHS,
    called,
    canonical,
    digest,
    grows,
    is_real,
    lowered_text,
    operations,
    sums_over_devices,
    without_repeats,
)
from conformance.hunt.program import packed, unpacked

#: Ends of lines of the reader of lowered programs that are strict: it cannot know whether another
#: conversion follows a conversion or a quotient.
_STRICT = ("a conversion may narrow it", "another conversion may undo it")
#: Parts of lines about what rounds nothing: a function, and the engine ``native``, whose calls it
#: does not read.
_EXACT = ("chlo.next_after", "for cpu, stablehlo.reduce_scatter")
#: The platforms that a program is lowered for, and read. It runs on the first one alone.
_PLATFORMS = ("cpu", "cuda")


def main() -> None:
    """Answers requests until the input ends."""
    answers = _own_output()
    plain = "--plain" in sys.argv
    if not plain:
        import impl  # noqa: PLC0415  # A plain process is JAX without this project.

        impl.use_deterministic_algorithms(True, guarantee="portable")
        if "--plant" in sys.argv:
            file = Path(sys.argv[sys.argv.index("--plant") + 1])
            text = file.read_text(encoding="utf-8")
            exec(compile(text, str(file), "exec"), {"__name__": "plant"})  # noqa: S102  # The user's file.
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _own_output() -> TextIO:
    """Returns the standard output, and sends what libraries print to the standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    try:
        with _mode(request["mode"]), jax.enable_x64(request["wide"]):
            answer = _run(request)
    except ModuleNotFoundError as error:
        answer = {"missing": str(error)}
    except Exception as error:  # noqa: BLE001  # Any exception is an answer.
        answer = {"error": type(error).__name__, "message": str(error)[:2000]}
    return {**answer, "seconds": time.process_time() - start}


def _mode(mode: str) -> contextlib.AbstractContextManager[object]:
    if mode == "portable" or "impl" not in sys.modules:
        return contextlib.nullcontext()
    return sys.modules["impl"].deterministic(False)  # type: ignore[no-any-return]


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """Runs the text of a request, and returns what it asks for."""
    space: dict[str, Any] = {}
    exec("from conformance.hunt.prelude import *\n" + request["source"], space)  # noqa: S102  # The hunt's own text.
    asks = request["asks"]
    answer: dict[str, Any] = {}
    if not asks:
        return answer
    if "references" in asks:
        return {"values": [packed(each) for each in _references(space, request["variables"])]}
    function, arguments, how = space["first"]()
    if "wide" in asks:
        arguments = [x.astype(jnp.float64) if is_real(x) else x for x in arguments]
    if "text" in asks:
        scope = request.get("scope", False)
        text = without_repeats(lowered_text(function, arguments, scope=scope))
        answer["text"] = digest(np.frombuffer(text.encode(), np.uint8))
    if "sums" in asks:
        answer["sums"] = sums_over_devices(lowered_text(function, arguments))
    if "growth" in asks:
        numbers = operations(function, arguments, with_gradient=request["gradient"])
        counts = f"{DEPTHS} calls have {numbers} operations"
        answer["growth"] = {"grows": grows(numbers), "counts": counts}
    if "equations" in asks:
        answer["equations"] = sorted(_equations(jax.make_jaxpr(function)(*arguments).jaxpr))
    if "audit" in asks:
        report = sys.modules["impl"].audit(function)(*arguments)
        answer["audit"] = {"ok": report.ok, "text": str(report)[:2000]}
        if report.ok:
            answer["varying"] = varying(function, arguments)
    if "digests" in asks:
        outputs = called(function, arguments, how)
        answer["digests"] = [digest(each) for each in outputs]
        if "values" in asks or "results" in asks:
            answer["values"] = [packed(each) for each in outputs]
    return answer


def varying(function: Any, arguments: list[Any]) -> list[str]:
    """Returns the operations of a lowered program that may have other bits elsewhere.

    The program is lowered for a GPU, too, which runs nothing. Programs with products of a scatter
    are left out: the order of its factors is one of a kernel, or of a CPU.
    """
    from conformance.lab.portable import code  # noqa: PLC0415  # It imports this project.

    traced = jax.jit(function).trace(*arguments)
    if "scatter-mul" in {name for name, _ in _equations(traced.jaxpr.jaxpr)}:
        return []
    violations = []
    for platform in _PLATFORMS:
        module = traced.lower(lowering_platforms=(platform,)).compiler_ir()
        lines = (x for x in code.violations(module, platform) if not x.endswith(_STRICT))
        violations += [f"for {platform}, {x}" for x in lines]
    return [line for line in violations if not any(each in line for each in _EXACT)]


def _equations(jaxpr: Any) -> set[tuple[str, str]]:
    """Returns the primitives of a program with the dtypes of their results."""
    pairs: set[tuple[str, str]] = set()
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            pairs.add((equation.primitive.name, str(getattr(variable.aval, "dtype", ""))))
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            pairs |= _equations(inner)
    return pairs


def _references(space: dict[str, Any], variables: list[list[Any]]) -> list[np.ndarray]:
    """Runs each equation alone, in plain JAX, with float64 for floats where the text says so."""

    def wide(x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            return x.astype(jnp.complex128)
        return x.astype(jnp.float64) if is_real(x) else x

    space |= {"wide": wide, "magnitude": lambda x: jnp.abs(wide(x))}
    operands = [unpacked(each) for each in variables]
    return [canonical(np.asarray(each)) for each in jax.jit(space["references"])(*operands)]


if __name__ == "__main__":
    main()
