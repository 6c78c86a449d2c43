"""The checks of an adapter, each shown an adapter that is broken there."""

import pytest

from conformance import __main__ as command
from conformance import smoke
from conformance.tests._small import Small, offered


def with_any_name(small):
    known = vars(small.namespace)

    class Anything:
        def __getattr__(self, name):
            return known.get(name, lambda *_: None)

    small.namespace = Anything()


def left_on(small):
    scope = small.deterministic

    def deterministic(mode=True, **_):
        small.on = small.on or mode
        return scope(mode)

    small.namespace.deterministic = deterministic


def having(name, value):
    """Returns a breakage that sets an attribute of an adapter, or a function of its namespace."""

    def set_attribute(small):
        owner = small.namespace if hasattr(small.namespace, name) else small
        setattr(owner, name, value)

    return set_attribute


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (having("gradient", lambda *_: None), "gradient: "),
        (with_any_name, "missing op: ValueError: the namespace has 'no_op_has"),
        (
            having("use_deterministic_algorithms", lambda _: None),
            "mode: ValueError: after use_deterministic_algorithms(True) the mode reads False",
        ),
        (left_on, "mode: ValueError: after leaving deterministic(True) the mode reads True"),
        (having("out", lambda array: array.astype(float)), "arrays: ValueError: array([[ 1.5e+00"),
        (having("out", lambda array: array + array.dtype.type(0)), "arrays: "),
        (having("cumsum", lambda x, _: x), "value: AssertionError: "),
        (having("cumsum", None), "value: ValueError: the namespace has none of cumsum, index"),
        (having("devices", lambda: ("npu",)), "devices: ValueError: devices() gave ('npu',)"),
        (having("versions", lambda: {"small": "new"}), "versions: InvalidVersion: "),
    ],
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
