"""Calls that an op refuses: PyTorch's exception, and a message that names the argument.

The entries of the table have the errors of one op. Errors of many ops follow from the signature
and the first call of an op::

    index_add(input: Array, dim: int, ...)     of x, 1, ...
    refused: index_add([1.0], 1, ...)          TypeError: index_add(): argument 'input' must be ...
             index_add(x, 2, ...)              IndexError: ... range of [-2, 1], but got 2
"""

import inspect
import itertools

import numpy as np
import pytest

import impl
from conformance.cases._calls import Call
from conformance.cases._forms import unlike_torch
from conformance.cases.table import refused, table
from conformance.tests.every_op.calls import first_calls
from impl.tests.support.public_ops import public_ops

#: By the type of an argument, values of other types.
_SIZES = (1.5, "a", True)
WRONG = {
    "Array": ([1.0], None),
    "Array | None": ([1.0],),
    "Array | Sequence[int]": (4,),
    "Array | Sequence[int] | None": (4,),
    "Left": ([1.0],),
    "Sequence[Array]": (3,),
    "bool": (1, "a"),
    "bool | None": (1,),
    "float": ("a",),
    "float | None": ("a",),
    "int": (1.5, True, None),
    "int | None": (1.5, True),
    "int | Sequence[int]": (*_SIZES, None),
    "int | Sequence[int | None]": (*_SIZES, None),
    "int | Sequence[int] | str": _SIZES[::2],
    "int | Sequence[int] | None": _SIZES,
    "Sequence[int]": (3.5, "a"),
    "jax.typing.DTypeLike | None": (3, "text"),
    "str": (3,),
    "str | None": (3,),
}
#: Arguments that PyTorch compares with words or shapes, or reads as a condition.
UNTYPED = {"mode", "padding_mode", "reduction", "offsets", "size_average", "reduce", "sparse_grad"}


def arguments_of(call):
    """Returns a function that binds the arguments of a call, of which some are others."""
    parameters = inspect.signature(public_ops()[call.op]).parameters
    arguments, options = call.given()

    def bound(**others):
        positional, by_name = list(arguments), dict(options)
        for name, value in others.items():
            position = list(parameters).index(name)
            if (
                position < len(arguments)
                and parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY
            ):
                positional[position] = value
            else:
                by_name[name] = value
        return positional, by_name

    return parameters, bound


def exception(function, arguments, options):
    """Returns the exception that a call raises, or None."""
    try:
        function(*arguments, **options)
    except Exception as raised:  # noqa: BLE001 - the caller compares the type
        return raised
    return None


def name_of(op):
    """Returns the name by which an op calls itself in a message."""
    return op.removeprefix("nn.").removeprefix("functional.")


@pytest.mark.parametrize("call", **first_calls())
def test_an_argument_of_another_type_is_refused_by_name(call):
    parameters, bound = arguments_of(call)
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL or name in UNTYPED:
            continue
        for value, mode in zip(WRONG.get(parameter.annotation, ()), itertools.cycle((True, False))):
            with impl.deterministic(mode, profile="complete"):
                raised = exception(public_ops()[call.op], *bound(**{name: value}))
            label = f"{name}={value!r} gives {raised!r}"
            assert type(raised) is TypeError, label
            assert str(raised).startswith(f"{name_of(call.op)}(): argument '{name}"), label


def shared_errors(call):
    """Yields the errors that follow from the names of an op's arguments."""
    parameters, bound = arguments_of(call)

    def error(kind, words, **others):
        arguments, options = bound(**others)
        return refused(kind, words, *arguments, **options)

    if "dim" in parameters:
        ndim = bound()[0][0].ndim
        for dim in (ndim, -ndim - 1):
            words = f"range of [{-ndim}, {ndim - 1}], but got {dim}"
            yield error(IndexError, words, dim=dim)
    if "index" in parameters:
        for dtype in (np.int16, np.float32):
            words = f"for index but got: {np.dtype(dtype)}"
            index = bound()[0][list(parameters).index("index")]
            each = error(RuntimeError, words, index=index.astype(dtype))
            # PyTorch's index_fill alone has an IndexError.
            yield from unlike_torch(each) if call.op == "index_fill" else [each]
    for name in {"source", "src"} & parameters.keys():
        source = bound()[0][list(parameters).index(name)]
        yield error(RuntimeError, "float16", **{name: source.astype(np.float16)})


def errors_of(call):
    """Returns the refused calls of an op as calls."""
    errors = [*table()[call.op].errors(), *shared_errors(call)]
    return [(Call(call.op, each.form), each) for each in errors]


@pytest.mark.parametrize("call", **first_calls(errors_of))
def test_bad_arguments(call):
    wrong = []
    for bad, each in errors_of(call):
        for mode in (False, True):
            with impl.deterministic(mode, profile="complete"):
                raised = exception(bad.run, (impl, *bad.arrays), {})
            if type(raised) is not each.error or not (
                str(raised).startswith(name_of(call.op)) and each.words in str(raised)
            ):
                wrong.append((each.error.__name__, each.words, f"mode {mode}", raised))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("call", **first_calls(errors_of))
def test_pytorch_raises_the_same(torch, call):
    for bad, each in errors_of(call):
        if bad.torch:
            tensors = [torch.into(array) for array in bad.arrays]
            raised = exception(bad.run, (torch.namespace, *tensors), {})
            assert type(raised) is each.error, (each.error, each.words, raised)
