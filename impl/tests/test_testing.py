"""``impl.testing``: stand-ins, lowering for a GPU, questions, and unknown options."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._mode import emulation
from impl.tests.support.programs import kernels

X, INDEX = jnp.zeros(3), np.array([0, 2, 2])


def add(x):
    return impl.index_add(x, 0, INDEX, jnp.ones(3))


@pytest.mark.parametrize("lowering", ["kernel", "xla", "native"])
def test_a_stand_in_has_a_platform_a_lowering_and_a_seed(lowering):
    with impl.testing.emulate("cuda", lowering=lowering, seed=3):
        assert emulation.current() == emulation.Emulation("cuda", lowering, 3)
    assert emulation.current() is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: t.emulate("gpu"), ValueError, r"emulate\(\): argument 'platform' got 'gpu'; .*"),
        (lambda t: t.emulate("cuda", lowering="pallas"), ValueError, "allowed: 'kernel', 'xla', "),
        (lambda t: t.emulate("cuda", seed="a"), TypeError, "'seed' must be int or .*, not str"),
        (lambda t: t.schedule(1.5), TypeError, r"schedule\(\): argument 'seed' .*, not float"),
        (lambda t: t.schedule(None), TypeError, "'seed' must be int or .*, not NoneType"),
        (lambda t: t.lower(add, X, platform="gpu"), ValueError, "allowed: 'cpu', 'cuda', 'rocm'"),
        (lambda t: t.lower(X, X), TypeError, "'function' must be callable, not ArrayImpl"),
    ],
)
def test_wrong_arguments_are_refused_by_name_before_the_scope(call, error, message):
    with pytest.raises(error, match=message):
        call(impl.testing)


def test_a_program_is_lowered_for_a_platform_that_is_not_here():
    assert kernels(impl.testing.lower(add, X)) == set()
    assert kernels(impl.testing.lower(add, X, platform="cpu")) == set()
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    with impl.deterministic(profile="complete"):
        assert kernels(impl.testing.lower(add, shape)) == {"scatter_add_runs"}
    impl.testing.lower(lambda x: jax.ref.addupdate(jax.new_ref(jnp.zeros(3)), (0,), x[0]), X)


def test_questions_are_recorded_in_every_open_scope_of_the_thread():
    with impl.testing.questions() as outer:
        add(X)
        with impl.testing.questions() as inner:
            add(X)
        thread = threading.Thread(target=add, args=(X,))
        thread.start()
        thread.join()
    add(X)
    assert len(outer) == 2 * len(inner) > 0
    assert all(isinstance(question, impl.testing.Question) for question in outer)
    question = inner[0]
    assert (question.op, question.direction) == ("index_add", "forward")
    assert question.facts["dtype"] == "floating"


def test_a_jitted_function_asks_when_it_is_traced():
    jitted = jax.jit(add)
    with impl.testing.questions() as record:
        jitted(X)
    assert record
    with impl.testing.questions() as record:
        jitted(X)
    assert not record
