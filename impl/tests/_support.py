"""What tests of impl share: lowerings to emulate, comparison of bits, calls from outside impl."""

import contextlib
import re
import types

import numpy as np
import pytest

import impl

#: Every way to compute a path on this machine; on the ordered path they must agree in every bit.
LOWERINGS = {
    "native": contextlib.nullcontext,
    "xla": lambda: impl.testing.emulate("cuda", lowering="xla"),
    "kernel": lambda: impl.testing.emulate("cuda"),
    "seed 1": lambda: impl.testing.schedule(1),
    "seed 2": lambda: impl.testing.schedule(2),
}
STAND_INS = frozenset(LOWERINGS) - {"native"}
#: Those that differ in more than the order of programs.
DISTINCT = ("native", "xla", "seed 1")


def bits(value):
    """Dtype, shape and bytes: equal only where every bit is, signs of zeros and NaNs included."""
    value = np.asarray(value)
    return value.dtype, value.shape, value.tobytes()


def assert_same_bits(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.tobytes() != want.tobytes():
        words = f"u{got.dtype.itemsize}" if got.dtype.kind != "c" else f"u{got.dtype.itemsize // 2}"
        differ = np.argwhere(np.atleast_1d(got).view(words) != np.atleast_1d(want).view(words))
        place = tuple(differ[0])
        raise AssertionError(
            f"{len(differ)} words differ, first at {place}: "
            f"{np.atleast_1d(got).view(words)[place]:#x} for "
            f"{np.atleast_1d(want).view(words)[place]:#x}; got\n{got}\nwanted\n{want}"
        )


def kernels(lowered):
    """The names of the kernels in a lowered program."""
    return set(
        re.findall(
            r"(?:scatter_(?:add|mul|assign)|scan|select)_(?:atomic|ordered)_?\w*",
            lowered.as_text(),
        )
    )


def user_module(source):
    """A module of someone else's: code in ``impl.tests`` counts as impl's own in a traceback."""
    module = types.ModuleType("user_program")
    exec(compile(source, "user_program.py", "exec"), module.__dict__)
    return module


def spread(rng, shape, dtype=np.float32):
    """Normal numbers of many magnitudes, whose sum depends on the order of the additions."""
    value = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * rng.standard_normal(shape)
    return value.astype(dtype)


def assert_refused(function, arguments, options, error, fragment):
    """An exception of exactly that type, whose message names the function."""
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        function(*arguments, **options)
    assert type(raised.value) is error
    assert str(raised.value).startswith(f"{function.__name__}(): ")


def assert_torch_refuses(torch, function, arguments, options, error):
    """The same of a function of PyTorch, but for its message."""
    given = [torch.tensor(a) if isinstance(a, np.ndarray | np.generic) else a for a in arguments]
    with pytest.raises(error) as raised:
        function(*given, **options)
    assert type(raised.value) is error, (raised.value, options)
