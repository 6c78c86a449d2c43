"""``impl.audit`` and ``impl.first_difference`` of programs with layers of Flax and Equinox."""

import jax
import jax.numpy as jnp
import pytest

import impl
from impl.tests.programs.racing import LINE, SAME, SIZES, schedules, sums


def _linen():
    nn = pytest.importorskip("flax.linen")
    model = nn.Embed(7, 6)
    return jax.jit(lambda table, words: model.apply({"params": {"embedding": table}}, words).sum())


def _nnx():
    nnx = pytest.importorskip("flax.nnx")

    def of(table, words):
        model = nnx.Embed(7, 6, rngs=nnx.Rngs(0))
        model.embedding[...] = table
        return model(words).sum()

    return of


def _equinox():
    eqx = pytest.importorskip("equinox")

    def of(table, words):
        return jax.vmap(eqx.nn.Embedding(weight=table))(words.reshape(-1)).sum()

    return eqx.filter_jit(of)


@pytest.mark.parametrize(
    ("build", "library"), [(_linen, "flax/linen/"), (_nnx, "flax/nnx/"), (_equinox, "equinox/nn/")]
)
def test_the_layer_of_a_library_is_named_beside_the_users_line(build, library):
    gradient = jax.grad(build())
    (finding,) = impl.audit(gradient)(jnp.ones((7, 6)), jnp.zeros((2, 3), int)).findings
    assert finding.primitive == "lax.scatter_add"
    assert finding.source.startswith("conformance/tests/test_audit.py:")
    assert finding.library.startswith(library)
    assert "Embed" in finding.library


def test_a_function_that_nnx_jitted_is_traced_as_it_is():
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Embed(7, 6, rngs=nnx.Rngs(0))
    step = nnx.jit(lambda model, words: nnx.grad(lambda m: m(words).sum())(model))
    (finding,) = impl.audit(step)(model, jnp.zeros(3, int)).findings
    assert finding.library.startswith("flax/nnx/")


def test_a_step_of_nnx_is_compared_and_its_state_stays():
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self):
            self.weight = nnx.Param(jnp.ones(6))
            self.calls = nnx.BatchStat(jnp.zeros(()))

        def __call__(self, x):
            self.calls[...] += 1
            return sums(SAME, self.weight[...] * x)

    def loss(model, x, scale):
        return model(x * scale).sum()

    @nnx.jit(donate_argnums=0, static_argnames="scale")
    def step(model, x, *, scale):
        value, gradients = nnx.value_and_grad(loss)(model, x, scale)
        state = nnx.state(model, nnx.Param)
        nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, state, gradients))
        return value

    model = Model()
    found = impl.first_difference(step, model, SIZES, scale=2, between=schedules())
    assert found.primitive == "lax.scatter_add"
    assert found.source.endswith(LINE)
    assert impl.first_difference(step, model, SIZES, scale=2) is None
    recording = impl.programs.record(step, model, SIZES, scale=2)
    assert recording.outputs.size == 3  # The loss, the weight and the number of calls.
    assert model.calls[...] == 0
    assert (model.weight[...] == 1).all()
    step(model, SIZES, scale=2)
    assert model.calls[...] == 1


def test_a_step_of_equinox_is_compared_and_nothing_is_donated():
    eqx = pytest.importorskip("equinox")
    layer = eqx.nn.Linear(6, 6, key=jax.random.key(0))

    @eqx.filter_jit(donate="all")
    def step(layer, x, kind):
        values = sums(SAME, x) if kind == "sum" else x
        return layer(values), kind

    sizes = jnp.asarray(SIZES)
    found = impl.first_difference(step, layer, sizes, kind="sum", between=schedules())
    assert found.primitive == "lax.scatter_add"
    assert found.source.endswith(LINE)
    assert impl.programs.record(step, layer, sizes, "sum").outputs.size == 1
    assert not sizes.is_deleted()
    assert not layer.weight.is_deleted()
