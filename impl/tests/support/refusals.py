"""Calls that an op refuses: PyTorch's exception type, and a message that names the op."""

import re
import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

import impl

#: The name of an op, positional arguments, keywords, exception, and a fragment of the message.
Call: TypeAlias = tuple[Any, ...]


def function_of(name, namespace=impl):
    """Returns the public function of a dotted name."""
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def assert_refused(function, arguments, options, error, fragment, start=None):
    """Requires an exception of exactly that type, whose message starts with the name of the op."""
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        function(*arguments, **options)
    assert type(raised.value) is error
    assert str(raised.value).startswith(start or f"{function.__name__}(): ")


def assert_torch_refuses(torch, function, arguments, options, error):
    """Requires an exception of exactly that type from a function of PyTorch."""
    with pytest.raises(error) as raised:
        function(
            *(as_tensors(torch, argument) for argument in arguments),
            **{name: as_tensors(torch, option) for name, option in options.items()},
        )
    assert type(raised.value) is error, (raised.value, options)


def as_tensors(torch, value):
    """Returns ``value`` with arrays as tensors, also those inside a tuple or a list.

    The type bool, as a dtype, becomes PyTorch's.
    """
    if value is bool:
        return torch.bool
    if isinstance(value, tuple | list):
        return type(value)(as_tensors(torch, entry) for entry in value)
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(value))
    return value


class BadArgumentsUnlikeTorch:
    """The test of the bad calls of an op or of a family; a subclass states the calls.

    Attributes:
        unlike_torch: The name of the op, positional arguments, keywords, exception, and a fragment
            of the message. PyTorch has no such argument or does something else.
    """

    calls: Sequence[Call] = ()
    unlike_torch: Sequence[Call] = ()

    def pytest_generate_tests(self, metafunc):
        """Gives each test the calls that it applies to, named by op and message."""
        with_torch = metafunc.function.__name__ == "test_torch_raises_the_same"
        calls = [*self.calls, *(() if with_torch else self.unlike_torch)]
        metafunc.parametrize("call", calls, ids=[f"{call[0]}-{call[-1]}" for call in calls])

    def test_bad_arguments(self, call):
        op, arguments, options, error, fragment = call
        for mode in (False, True):
            with impl.deterministic(mode, profile="complete"):
                assert_refused(function_of(op), arguments, options, error, fragment, start=op)


class BadArguments(BadArgumentsUnlikeTorch):
    """The tests of bad calls of which some are compared with PyTorch.

    Attributes:
        calls: Calls for which PyTorch raises the same exception.
        torch_functions: Functions that call operators or methods of PyTorch, by op.
    """

    torch_functions: Mapping[str, Any] = types.MappingProxyType({})

    def test_torch_raises_the_same(self, call, torch):
        op, arguments, options, error, _ = call
        function = self.torch_functions.get(op) or function_of(op, torch)
        assert_torch_refuses(torch, function, arguments, options, error)
