"""``impl.first_difference`` of functions that are called in all ways of JAX, and wrong arguments.

Tests: impl.programs._differences.first_difference.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl.tests.programs.racing import LINE, SAME, SIZES, schedules, sums


def test_static_donated_and_named_arguments_are_those_of_the_function():
    @functools.partial(jax.jit, donate_argnums=0, static_argnames="kind")
    def program(x, *, kind, by):
        assert kind == "sum"
        return sums(SAME, x) * by["scale"]

    x = jnp.asarray(SIZES)
    named = {"kind": "sum", "by": {"scale": jnp.float32(2)}}
    for function in (program, impl.jit(program.__wrapped__, static_argnames="kind")):
        found = impl.first_difference(function, x, **named, between=schedules())
        assert found.source.endswith(LINE)
        recording = impl.programs.record(function, x, **named)
        assert recording.nodes[0].mark.outputs == ("argument 0", "argument 'by'['scale']")
    assert not x.is_deleted()


def test_what_pmap_maps_is_entered():
    mapped = jax.pmap(
        lambda x, times: lax.psum(sums(SAME, x) * times, "i"),
        "i",
        donate_argnums=0,
        static_broadcasted_argnums=1,
    )
    x = jnp.asarray(SIZES)[None]
    found = impl.first_difference(mapped, x, 2, between=schedules())
    assert (found.primitive, found.inside) == ("lax.scatter_add", ("shard_map",))
    assert found.source.endswith(LINE)
    assert impl.first_difference(mapped, x, 2) is None
    impl.programs.record(mapped, x, 2)
    assert not x.is_deleted()


class Model:
    """A model that is not a tree of arrays: it counts its calls, as a model of Flax may."""

    def __init__(self):
        self.calls = jnp.zeros(())


class Wrapper:
    """A wrapper of ``jax.jit`` as a library makes it, such as ``nnx.jit``.

    Its ``__wrapped__`` cannot be called with its arguments, and ``trace`` returns no trace of JAX.
    """

    def __init__(self):
        self._jitted = jax.jit(lambda calls, x: (calls + 1, sums(SAME, x)))
        self.__wrapped__ = None

    def trace(self, *_):
        return object()

    lower = trace

    def __call__(self, model, x):
        model.calls, total = self._jitted(model.calls, x)
        return total


def test_a_wrapper_of_jit_is_called_with_a_copy_of_what_it_changes():
    model, x = Model(), jnp.asarray(SIZES)
    found = impl.first_difference(Wrapper(), model, x, between=schedules())
    assert found.source.endswith(LINE)
    assert impl.programs.record(Wrapper(), model, x).outputs.size == 1
    assert isinstance(model.calls, jax.Array)
    assert not isinstance(model.calls, jax.core.Tracer)
    assert model.calls == 0


def test_state_that_a_function_changes_is_an_output():
    def program(state, x):
        state["total"] = sums(SAME, x)

    state = {"total": jnp.zeros(6), "kept": jnp.ones(3)}
    assert impl.programs.record(program, state, jnp.asarray(SIZES)).outputs.size == 1
    assert not state["total"].any()


def test_arguments_of_a_recording_are_compared():
    recording = impl.programs.record(jnp.sin, jnp.zeros(3))
    found = impl.first_difference(jnp.sin, jnp.ones(3), between=(recording, None))
    assert (found.kind, found.outputs) == ("argument", ("argument 0",))


def test_sharded_arrays_are_compared():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    spec = jax.P("x", None)

    def program(x):
        local = jax.shard_map(
            lambda v: jax.lax.psum(v.sum(), "x"), in_specs=spec, out_specs=jax.P()
        )
        return jnp.tanh(x) + local(x), sums(SAME, SIZES)

    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.ones((4, 2)), jax.NamedSharding(mesh, spec))
        found = impl.first_difference(program, x, between=schedules())
    assert found.source.endswith(LINE)


def test_runs_on_two_devices_are_compared():
    device = jax.devices()[0]
    assert impl.first_difference(jnp.cos, jnp.ones(3), between=(device, device)) is None


def test_bad_arguments_are_named():
    for given, message in (
        ({"between": (None,)}, "'between' must have two runs"),
        ({"marks": "all"}, "'marks' got 'all'; allowed: 'arithmetic', 'equations', 'calls'"),
    ):
        with pytest.raises(ValueError, match=message):
            impl.first_difference(jnp.sin, 1.0, **given)
    for function, argument, given, message in (
        (jnp.sin, 1.0, {"between": (None, 3)}, "devices, recordings and None, not int"),
        (jnp.sin, 1.0, {"between": None}, "'between' must be a tuple of two runs, not NoneType"),
        (jnp.sin, 1.0, {"between": impl.deterministic()}, "a tuple of two runs, not Scope"),
        (3, 1.0, {}, "'function' must be callable, not int"),
        (jnp.sin, jax.ShapeDtypeStruct((2,), "float32"), {}, "audited, not run. Pass arrays"),
    ):
        with pytest.raises(TypeError, match=message):
            impl.first_difference(function, argument, **given)


def test_texts_among_the_arguments_are_constants():
    names = np.array(["a", "b"])
    assert impl.first_difference(lambda x, names: x * len(names), jnp.ones(3), names) is None
    assert impl.audit(lambda x, names: x * len(names))(jnp.ones(3), names).ok
