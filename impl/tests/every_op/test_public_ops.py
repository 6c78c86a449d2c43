"""Every public op has a sample, a docstring for the reference, and checks of its arguments."""

import inspect

import jax
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

import impl
import spec
from impl.tests.every_op.public_ops import (
    Recorder,
    first_samples,
    named_samples,
    primitives_of,
    public_ops,
    samples_of,
    samples_of_no_op,
    without_samples,
)

ARRAYS = (np.ndarray, jax.Array, BCOO)


def test_each_op_has_a_sample():
    missing = without_samples()
    assert missing == [], (
        f"no test of impl/tests/every_op calls {missing}: add a sample of each to "
        "samples_of_ops.py or samples_of_nn.py there"
    )


def test_no_sample_without_an_op():
    assert samples_of_no_op() == []


def test_docstrings_name_the_source():
    docstrings = {op: inspect.getdoc(function) or "" for op, function in public_ops().items()}
    assert [op for op, text in docstrings.items() if "Source: ``torch." not in text] == []


@pytest.mark.parametrize("sample", **first_samples())
def test_what_is_no_array_is_refused(sample, request):
    op = request.node.callspec.id
    function, calls = public_ops()[op], []
    sample.call(Recorder(calls), *sample.arrays)
    ((arguments, options),) = calls
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    for position, value in enumerate(arguments):
        annotation = parameters[names[position]].annotation
        # Some arguments may be lists.
        if not isinstance(value, ARRAYS) or "Sequence" in annotation or annotation == "Any":
            continue
        wrong = [*arguments[:position], [1.0], *arguments[position + 1 :]]
        for mode in (False, True):
            with impl.deterministic(mode, profile="complete"), pytest.raises(TypeError) as raised:
                function(*wrong, **options)
            name = op.removeprefix("nn.").removeprefix("functional.")
            assert str(raised.value).startswith(f"{name}(): argument '{names[position]}'")


def test_bits_may_differ_only_if_a_row_says_so():
    for op in public_ops():
        guarantees = {row.guarantee for row in spec.load().rows if row.op == op}
        same_bits = all(sample.same_bits for sample in samples_of(op))
        assert same_bits or guarantees - {"portable"}, op


def test_ops_consist_of_the_primitives_of_jax():
    # JAX has none for an alert, and for memory that is not initialized.
    own = {"samebits_alert", "samebits_alert_pullback", "samebits_uninitialized"}
    for name, sample in named_samples().items():
        for profile in ("complete", "torch-1.10"):
            names = primitives_of(sample, profile, differentiated=True)
            assert {each for each in names if each.startswith("samebits_")} <= own, name
