"""Calls that an op refuses: PyTorch's exception type, and a message that names the op."""

import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import impl

#: The name of an op, positional arguments, keywords, exception, and a fragment of the message. The
#: keywords may be left out.
Call: TypeAlias = tuple[Any, ...]


def function_of(name, namespace=impl):
    """Returns the public function of a dotted name."""
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def exception(function, arguments, options):
    """Returns the exception that a call raises, or None."""
    try:
        function(*arguments, **options)
    except Exception as raised:  # noqa: BLE001 - the caller compares the type
        return raised
    return None


def as_tensors(torch, value):
    """Returns ``value`` with arrays as tensors, also those inside a tuple, a list or a dict.

    The type bool, as a dtype, becomes PyTorch's.
    """
    if value is bool:
        return torch.bool
    if isinstance(value, dict):
        return {name: as_tensors(torch, entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(as_tensors(torch, entry) for entry in value)
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(value))
    return value


class BadArgumentsUnlikeTorch:
    """The test of the bad calls of an op or of a family; a subclass states the calls.

    Attributes:
        namespace: The text before the name of an op in impl and in PyTorch: "" or "nn.functional.".
        op: The name of the op, if the calls do not begin with one.
        unlike_torch: The name of the op, positional arguments, keywords, exception, and a fragment
            of the message. PyTorch has no such argument or does something else.
        functions: Functions of impl to call instead, by op.
    """

    namespace: str = ""
    op: str = ""
    calls: Sequence[Call] = ()
    unlike_torch: Sequence[Call] = ()
    functions: Mapping[str, Any] = types.MappingProxyType({})

    def named(self, calls):
        """Returns the calls with the name of the op."""
        return [(self.op, *call) if self.op else call for call in calls]

    def test_bad_arguments(self):
        # One test for all calls: each takes less time than the fixtures of a test.
        wrong = []
        for op, arguments, *options, error, fragment in self.named(
            [*self.calls, *self.unlike_torch]
        ):
            function = self.functions.get(op) or function_of(self.namespace + op)
            for mode in (False, True):
                with impl.deterministic(mode, profile="complete"):
                    raised = exception(function, arguments, dict(*options))
                beginning = f"{op}(): " if self.namespace else op
                if type(raised) is not error or not (
                    str(raised).startswith(beginning) and fragment in str(raised)
                ):
                    wrong.append((op, error.__name__, fragment, f"mode {mode}", raised))
        assert not wrong, "\n".join(map(str, wrong))


class BadArguments(BadArgumentsUnlikeTorch):
    """The tests of bad calls of which some are compared with PyTorch.

    Attributes:
        calls: Calls for which PyTorch raises the same exception.
        torch_functions: Functions that call operators or methods of PyTorch, by op.
    """

    torch_functions: Mapping[str, Any] = types.MappingProxyType({})

    def test_torch_raises_the_same(self, torch):
        for op, arguments, *options, error, fragment in self.named(self.calls):
            function = self.torch_functions.get(op) or function_of(self.namespace + op, torch)
            call = (as_tensors(torch, values) for values in (arguments, dict(*options)))
            assert type(exception(function, *call)) is error, (op, fragment)


def bad_arguments(
    calls: Sequence[Call], unlike_torch: Sequence[Call] = (), op: str = "", **fields: Any
) -> type[BadArguments]:
    """Returns the tests of bad calls of ``nn.functional``; ``fields`` are further attributes."""
    fields |= {"calls": calls, "unlike_torch": unlike_torch, "op": op}
    return type("Tests", (BadArguments,), {"namespace": "nn.functional.", **fields})
