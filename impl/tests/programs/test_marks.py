"""The digests that ``impl.first_difference`` compares: each bit of an array changes them."""

import jax
import jax.numpy as jnp
import numpy as np

from impl.programs._differences.marks import Planner, digests, evaluate, windows


def test_arrays_with_other_bits_have_other_digests():
    quiet, payload = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    groups = [
        [jnp.float32(0.0), jnp.float32(-0.0), jnp.float32(1e-45), quiet, payload],
        [jnp.array([1.0, 2.0]), jnp.array([2.0, 1.0]), jnp.array([1.0, 1.0])],
        [jnp.array([[1, 2], [3, 4]]), jnp.array([[1, 3], [2, 4]])],
        [jnp.array([True, False]), jnp.array([False, True])],
        [jnp.array([1 + 2j]), jnp.array([2 + 1j]), jnp.array([1 + 0j])],
        [jnp.bfloat16(1), jnp.bfloat16(1.0078125)],
        [jnp.array([1, 2], jnp.int4), jnp.array([2, 1], jnp.int4)],
        [jax.random.split(jax.random.key(0)), jax.random.split(jax.random.key(1))],
    ]
    flat = [value for group in groups for value in group]
    words = np.asarray(jax.jit(lambda *values: jnp.stack(digests(values)))(*flat))
    for group in groups:
        mine, words = words[: len(group)], words[len(group) :]
        assert len({bytes(word) for word in mine}) == len(group), group
        assert all(len(set(column.tolist())) == len(group) for column in mine.T), group


def test_a_value_without_elements_has_a_digest():
    assert [word.shape for word in digests([jnp.zeros((0, 3)), 1.5])] == [(1,), (1,)]


def test_a_program_evaluated_with_digests_has_the_values_of_the_plain_one():
    def grow(x):
        return jax.lax.while_loop(lambda v: v < 10, lambda v: v * 3, x)

    def program(x):
        stacked = jax.lax.scan(lambda c, v: (c * v, c + v), 1.0, x, reverse=True)
        chosen = jax.vmap(lambda v: jax.lax.cond(v > 2, jnp.negative, jnp.abs, v))(x)
        one = jax.lax.cond(x[0] > 2, jnp.sum, jnp.max, x)
        return jax.vmap(grow)(x), grow(x[0]), stacked, chosen, one

    x = jnp.array([1.0, 2.0, 4.0, 20.0])
    closed = jax.make_jaxpr(program)(x)
    nodes = Planner("equations", {}).nodes(closed)
    outputs, words = jax.jit(lambda x: evaluate(closed, [x], nodes, windows(nodes)))(x)
    expected = jax.tree.leaves(program(x))
    assert [out.tolist() for out in outputs] == [out.tolist() for out in expected]
    assert sum(part.size for part in words) == sum(node.words for node in nodes)
