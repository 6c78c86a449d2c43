"""Compares how two releases of JAX write its functions, and their first two derivatives.

Each function of one to three arrays is traced by the interpreter that runs this and by another,
which has another release of JAX. Programs whose equations differ are run, on ordinary arguments
and on borders. ``spec/releases_of_jax.toml`` keeps the differences, which the audit and the site
read:

    python -m conformance.hunt.releases --python OTHER/bin/python
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np
from jax.extend.core import jaxprs_in_params

import impl
import spec
from conformance.hunt.crew import Kind, Worker

FILE = Path(spec.__file__).with_name("releases_of_jax.toml")
MODULES = (
    *("jax.numpy", "jax.numpy.linalg", "jax.nn", "jax.lax", "jax.lax.linalg"),
    *("jax.scipy.special", "jax.scipy.linalg", "jax.scipy.signal", "jax.scipy.integrate"),
    *(f"jax.scipy.stats.{each.name}" for each in pkgutil.iter_modules(jax.scipy.stats.__path__)),
)
_X = np.linspace(0.15, 0.85, 6, dtype=np.float32)
# Products of its elements are rounded: with /8 they would be exact, and any order would do.
_M = (np.eye(3) * 3 + np.arange(9).reshape(3, 3) / 7).astype(np.float32)
_I = np.array([0, 2, -2, 5, 1, 3], np.int32)
#: The arguments of a function, of which the first that it takes are used.
ARGUMENTS = (
    *((_X,), (_X, _X + 1), (_X, _X + 1, _X + 2), (_M,), (_M, _M + 1), (_X, np.float32(1))),
    *((_X, _I), (_X, _I, _X + 1), (_I,), (_I, _I + 1)),
)
#: Further values of the first argument.
BORDERS = (0.0, -0.0, 1.0, -1.0, 5.0, -5.0, 1e-30, np.inf, -np.inf, np.nan)
#: The parameters of an equation that its digest has: others are new in some releases.
_PARAMETERS = ("y", "axes", "axis", "dimensions", "dimension_numbers", "new_dtype", "is_stable")
#: How many seconds a program may take.
PATIENCE = 60


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields the public functions of JAX's modules, each with its name."""
    for module in MODULES:
        for name, function in sorted(vars(importlib.import_module(module)).items()):
            if name.startswith("_") or not callable(function) or inspect.isclass(function):
                continue
            yield f"{module}.{name}", function


def derivative(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Returns a function, its gradient for the first argument, or its second gradient."""
    if order == 0:
        return function
    lower = derivative(function, order - 1)

    def total(*args: Any) -> Any:
        leaves = map(jnp.asarray, jax.tree.leaves(lower(*args)))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    return jax.grad(total)


def programs(
    names: Sequence[str] | None = None,
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], Any]]:
    """Yields each program that can be traced: its name, function, arguments and jaxpr.

    Of named programs, the functions alone are traced.
    """
    wanted = None if names is None else {name.partition(" ")[0] for name in names}
    for name, function in functions():
        if wanted is not None and name not in wanted:
            continue
        for arguments in ARGUMENTS:
            found = _traced(function, arguments)
            if found is None:
                continue
            yield f"{name} 0", function, arguments, found
            for order in (1, 2):
                by_order = derivative(function, order)
                jaxpr = _traced(by_order, arguments)
                if jaxpr is not None:
                    yield f"{name} {order}", by_order, arguments, jaxpr
            break


def _traced(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return jax.make_jaxpr(function)(*arguments)
    except Exception:  # noqa: BLE001  # A function may raise anything for arguments that it does not take.
        return None


def text(jaxpr: Any) -> str:
    """Returns the equations of a program, a function written out in place of its call."""
    numbers: dict[Any, int] = {}

    def word(operand: Any) -> str:
        if hasattr(operand, "val"):
            return f"{np.asarray(operand.val).tolist()}:{operand.aval.str_short()}"
        return f"{numbers.setdefault(operand, len(numbers))}:{operand.aval.str_short()}"

    def lines(jaxpr: Any) -> Iterator[str]:
        for equation in jaxpr.eqns:
            operands = [word(operand) for operand in equation.invars]
            results = [word(result) for result in equation.outvars]
            chosen = {k: v for k, v in equation.params.items() if k in _PARAMETERS}
            options = sorted(map(str, chosen.items()))
            yield f"{equation.primitive.name} {operands} {results} {options}"
            for inner in jaxprs_in_params(equation.params):
                yield from lines(inner)

    return "\n".join(lines(jaxpr.jaxpr))


def traces() -> dict[str, dict[str, Any]]:
    """Returns, for each program, a digest of its equations, and where its function is written."""
    found = {}
    by_name = dict(functions())
    for name, _, _, jaxpr in programs():
        function = inspect.unwrap(by_name[name.partition(" ")[0]])
        code = getattr(function, "__code__", None)
        file = "" if code is None else code.co_filename.rpartition("site-packages/")[2]
        digest = hashlib.sha256(text(jaxpr).encode()).hexdigest()[:16]
        found[name] = {"digest": digest, "file": file, "function": getattr(code, "co_name", "")}
    return found


def runnable(name: str, kind: str) -> tuple[Callable[..., Any], tuple[Any, ...], str]:
    """Returns a program as a worker of the hunt runs it: a function, its arguments, and the call.

    The kind is ``ordinary`` for its own arguments, or ``borders``.
    """
    function, arguments = next(each[1:3] for each in programs([name]) if each[0] == name)
    if kind == "ordinary":
        return function, arguments, "jit"
    first, *others = arguments
    borders = [np.resize(np.array(x, np.float32), first.shape) for x in (BORDERS, BORDERS[::-1])]
    return lambda *x: [function(each, *x[2:]) for each in x[:2]], (*borders, *others), "jit"


def bits(worker: Worker, name: str) -> list[object] | None:
    """Returns the digests of a program for ordinary arguments and for borders.

    It returns the name of the error of arguments that are refused, and None if the program does not
    end in time.
    """
    results: list[object] = []
    for kind in ("ordinary", "borders"):
        source = "from conformance.hunt import releases\n"
        source += f"first = lambda: releases.runnable({name!r}, {kind!r})"
        request = {"source": source, "asks": ["digests"], "mode": "portable", "wide": False}
        answer = worker.ask(request, PATIENCE)
        if answer.get("error") in {"crash", "hang"}:
            return None
        results.append(answer.get("digests", answer.get("error")))
    return results


def toml(traced: Mapping[str, Any], kinds: Mapping[str, Sequence[str] | None]) -> str:
    """Returns the kept list, from the result of ``traces``.

    ``kinds`` are, for each program with other equations, the arguments at which bits differ; None
    if a release did not end in time.
    """
    table = [
        "# Functions of JAX that have other equations in another release, by `nox -s releases`.",
        "# Each list holds orders of derivatives. `bits`: bits differ at ordinary arguments;",
        "# `borders`: bits differ only at 0, infinity, NaN and the like; `untried`: one release",
        "# did not end in time; `text`: bits are equal, or the release refuses.",
    ]
    for name in sorted({program.partition(" ")[0] for program in kinds}):
        place = next(traced[p] for p in traced if p.partition(" ")[0] == name)
        words: dict[str, list[int]] = {"bits": [], "borders": [], "text": [], "untried": []}
        for order in range(3):
            if f"{name} {order}" in kinds:
                words[_word(kinds[f"{name} {order}"])].append(order)
        table += ["", "[[function]]", f'name = "{name}"']
        table += [f"{key} = {json.dumps(place[key])}" for key in ("file", "function")]
        table += [f"{kind} = {orders}" for kind, orders in words.items() if orders]
    return "\n".join(table) + "\n"


def _word(differs: Sequence[str] | None) -> str:
    if differs is None:
        return "untried"
    if not differs:
        return "text"
    return "borders" if list(differs) == ["borders"] else "bits"


def compared(python: str) -> str:
    """Returns the kept list of this interpreter and another."""
    one, other = (_traces_of(each) for each in (sys.executable, python))
    names = [n for n in one if n in other and one[n]["digest"] != other[n]["digest"]]
    print(f"{len(one)} programs, of which {len(names)} have other equations", file=sys.stderr)
    workers = [Worker(Kind(python=each)) for each in (sys.executable, python)]
    kinds = {name: _differing(*(bits(worker, name) for worker in workers)) for name in names}
    for worker in workers:
        worker.close()
    return toml(one, kinds)


def _traces_of(python: str) -> dict[str, Any]:
    command = [python, "-m", "conformance.hunt.releases", "traces"]
    traced: dict[str, Any] = json.loads(subprocess.check_output(command))  # noqa: S603  # The caller names it.
    return traced


def _differing(here: list[object] | None, there: list[object] | None) -> list[str] | None:
    """Returns the arguments at which two releases have other bits; None if one did not end."""
    if here is None or there is None:
        return None
    pairs = zip(("ordinary", "borders"), here, there, strict=True)
    return [kind for kind, one, other in pairs if one != other]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the list, or prints the traces of one interpreter; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", nargs="?", choices=("write", "traces"), default="write")
    parser.add_argument("--python", help="an interpreter with another release of JAX")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.command == "write":
        FILE.write_text(compared(options.python), encoding="utf-8")
        return 0
    with impl.deterministic(guarantee="portable"):
        print(json.dumps(traces()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
