"""The checks of an adapter, each shown an adapter that is broken there."""

import numpy as np
import pytest

from conformance import __main__ as command
from conformance import smoke
from conformance.tests._small import Small, offered


def without_gradient(small):
    small.gradient = lambda function, at, cotangent: None  # noqa: ARG005


def with_any_name(small):
    known = vars(small.namespace)

    class Anything:
        def __getattr__(self, name):
            return known.get(name, lambda *_: None)

    small.namespace = Anything()


def stuck(small):
    small.namespace.use_deterministic_algorithms = lambda mode: None  # noqa: ARG005


def left_on(small):
    scope = small.deterministic

    def deterministic(mode=True, **_):
        small.on = small.on or mode
        return scope(mode)

    small.namespace.deterministic = deterministic


def of_one_dtype(small):
    small.out = lambda array: np.asarray(array, np.float64)


def without_signs(small):
    small.out = lambda array: array + array.dtype.type(0)


def wrong(small):
    small.namespace.cumsum = lambda x, _: x


def without_ops(small):
    del small.namespace.cumsum


def on_no_device(small):
    small.devices = lambda: ("npu",)


def of_no_version(small):
    small.versions = lambda: {"small": "new"}


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (without_gradient, "gradient: "),
        (with_any_name, "missing op: ValueError: the namespace has 'no_op_has"),
        (stuck, "mode: ValueError: after use_deterministic_algorithms(True) the mode reads False"),
        (left_on, "mode: ValueError: after leaving deterministic(True) the mode reads True"),
        (of_one_dtype, "arrays: ValueError: array([[ 1.5e+00"),
        (without_signs, "arrays: "),
        (wrong, "value: AssertionError: "),
        (without_ops, "value: ValueError: the namespace has none of cumsum, index"),
        (on_no_device, "devices: ValueError: devices() gave ('npu',)"),
        (of_no_version, "versions: InvalidVersion: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_part_is_named_and_no_row_is_tried(breakage, message, monkeypatch, capsys):
    small = Small()
    breakage(small)
    assert command.main(["run", "--namespace", offered(monkeypatch, small)]) == command.BROKEN == 3
    text = capsys.readouterr()
    assert "is broken, so that no row was tried" in text.err
    assert text.err.splitlines()[1].startswith(message)
    assert text.out == ""


def test_an_adapter_that_works_passes_and_is_left_with_its_mode_off(monkeypatch):
    small = Small()
    assert smoke.check(offered(monkeypatch, small)) is small
    assert not small.on


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("no_such_module", "import: ModuleNotFoundError: No module named 'no_such_module'"),
        ("jax.numpy", "mode: AttributeError: module 'jax.numpy' has no attribute 'use_determin"),
    ],
)
def test_a_module_that_is_no_implementation_is_a_broken_adapter(module, message, capsys):
    assert command.main(["run", "--namespace", module]) == command.BROKEN
    assert capsys.readouterr().err.splitlines()[1].startswith(message)


def test_an_error_without_a_message_is_told_by_its_line(monkeypatch):
    small = Small()

    def into(_):
        raise NotImplementedError

    small.into = into
    with pytest.raises(smoke.BrokenError, match=r"arrays: NotImplementedError: .*line \d+: raise"):
        smoke.check(offered(monkeypatch, small))
