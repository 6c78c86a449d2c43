"""``impl.audit`` of programs with layers of Flax and Equinox."""

import jax
import jax.numpy as jnp
import pytest

import impl


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
