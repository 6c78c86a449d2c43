"""Ops that are one function with another first argument, such as the number of dimensions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from impl._core import arguments, eager

First = TypeVar("First")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def variant(
    function: Callable[Concatenate[First, Parameters], Result], value: First, name: str, text: str
) -> Callable[Parameters, Result]:
    """Returns an op that calls a function with a first argument; it has all further parameters.

    Args:
        function: The computation.
        value: The first argument.
        name: The name of the op.
        text: The docstring of the op.
    """

    @functools.wraps(function)
    def op(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return function(value, *args, **kwargs)

    signature = inspect.signature(function)
    first, *others = signature.parameters.values()
    op.__name__ = op.__qualname__ = name
    op.__doc__ = text
    op.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != first.name}
    op.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return eager.compiled(op)


def for_dims(
    function: Callable[Concatenate[int, Parameters], Result], dims: int, text: str
) -> Callable[Parameters, Result]:
    """Returns the op of ``torch.nn.functional`` for a number of dimensions.

    Args:
        function: The computation. Its name gives the op's: ``conv2d`` is made of ``_conv``.
        dims: The number of dimensions.
        text: The docstring of the op, to which its source is added.
    """
    name = f"{function.__name__.removeprefix('_')}{dims}d"
    source = f"Source: ``torch.nn.functional.{name}``."
    rows = "The spec's rows state what the mode does, and the guarantee."
    return variant(function, dims, name, f"{text.rstrip()}\n\n    {source} {rows}\n    ")


def each(function: str, name: str, value: Any, dims: int) -> tuple[int, ...]:
    """Returns one int for each dimension.

    Args:
        function: The name of the op, for messages.
        name: The name of the argument, for messages.
        value: An int or a sequence of one int, for all dimensions; or a sequence of ``dims`` ints.
        dims: The number of dimensions.

    Raises:
        RuntimeError: The sequence has another length.
        TypeError: A value is not an int.
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    return arguments.integers(function, name, value, dims)
