"""How a function becomes an op: its eager calls are compiled, and its docstring gets an end.

Several ops may be one function with another first argument, such as the number of dimensions::

    conv1d, conv2d, conv3d = for_dims(_conv, (1, 2, 3), "``stride`` is an int for ...")
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from impl._core import eager

First = TypeVar("First")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: The end of the docstring of every op.
_END = """

Source: ``{}``. The spec's rows state what the mode does, and the guarantee.

If the mode is on and the profile has no deterministic implementation for the device, the call, or
its derivative, raises a RuntimeError. An argument of a wrong type raises a TypeError.
"""


def op(
    source: str, *, setting: Callable[[], Hashable] | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Returns a decorator that makes an op of a function.

    Args:
        source: The dotted name of the op in PyTorch.
        setting: As for ``eager.compiled``.
    """

    def decorated(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        function.__doc__ = inspect.cleandoc(function.__doc__ or "") + _END.format(source)
        return eager.compiled(function, setting=setting)

    return decorated


def variant(
    function: Callable[Concatenate[First, Parameters], Result],
    value: First,
    source: str,
    text: str | None = None,
) -> Callable[Parameters, Result]:
    """Returns an op that calls a function with a first argument; it has all further parameters.

    Args:
        function: The computation.
        value: The first argument.
        source: The dotted name of the op in PyTorch, whose last part is the name of the op.
        text: The docstring of the op; None for the docstring of the function.
    """

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return function(value, *args, **kwargs)

    signature = inspect.signature(function)
    first, *others = signature.parameters.values()
    call.__name__ = call.__qualname__ = source.rpartition(".")[2]
    call.__doc__ = text or function.__doc__
    call.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != first.name}
    call.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return op(source)(call)


def for_dims(
    function: Callable[Concatenate[int, Parameters], Result], dims: Sequence[int], *texts: str
) -> list[Callable[Parameters, Result]]:
    """Returns the ops of ``torch.nn.functional`` for several numbers of dimensions.

    Args:
        function: The computation, with the docstring of the first op. Its name gives the names of
            the ops: ``_conv`` makes ``conv2d``.
        dims: The numbers of dimensions.
        *texts: The rest of the docstrings of the second and of the third op, after a sentence that
            refers to the op before.
    """
    ops, name = [], function.__name__.removeprefix("_")
    for number, text in zip(dims, (None, *texts, ""), strict=False):
        axes = "H, W" if number == 2 else "D, H, W"
        refers = f"Computes what ``{name}{number - 1}d`` does, for [N, C, {axes}] and [C, {axes}]."
        doc = None if text is None else f"{refers}\n\n{inspect.cleandoc(text)}"
        ops.append(variant(function, number, f"torch.nn.functional.{name}{number}d", doc))
    return ops
