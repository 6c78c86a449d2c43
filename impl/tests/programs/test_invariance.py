"""``impl.testing.assert_invariant``: the changes that it makes, and how it names what differs.

Tests: impl.programs._differences.resized.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.programs._differences import invariance
from impl.testing import assert_invariant

pytestmark = pytest.mark.once


def normal(seed, *shape):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


X, W = normal(0, 6, 5), normal(1, 5, 7)
TEXT = normal(2, 2, 7, 4)


def layer(x, w):
    return jax.nn.softmax(jnp.tanh(x @ w))


def normalized(x):
    """Returns ``x`` as a batch norm does."""
    return (x - x.mean(0)) * jax.lax.rsqrt(x.var(0) + 1e-5)


def total(x):
    return jnp.tanh(x).sum()


def attention(x, live=None, causal=True):
    scores = x @ x.swapaxes(-1, -2)
    allowed = jnp.tril(jnp.ones(scores.shape[-2:], bool)) if causal else True
    if live is not None:
        allowed = allowed & live[..., None, :]
    return jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf)) @ x


def message(function, *args, **axes):
    with pytest.raises(AssertionError) as error:
        assert_invariant(function, *args, **axes)
    return str(error.value)


@pytest.mark.usefixtures("portable")
def test_rows_do_not_depend_on_their_batch():
    assert_invariant(layer, X, W, batch=(0, None))
    assert_invariant(jax.jit(layer), X, W, batch=(0, None))
    assert_invariant(lambda tree: {"y": layer(tree["x"], W), "text": "a"}, {"x": X}, batch=0)
    assert_invariant(lambda w, x: (w @ x.T, x @ w.T), W.T, X, batch=[None, 0], out_batch=(1, 0))

    def several(x, w):
        normal = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        narrow = x.astype("bfloat16") @ w.astype("bfloat16")
        convolved = jax.vmap(lambda row: jnp.convolve(row, w[:, 0], "same"))(x)
        return normal @ w, narrow, convolved, jax.vmap(lambda row: w.T @ row)(x)

    assert_invariant(several, X, W, batch=(0, None))


@pytest.mark.usefixtures("portable")
def test_the_order_of_examples_changes_no_gradient():
    gradient = jax.grad(lambda w, x: layer(x, w).var())
    assert_invariant(gradient, W, X, batch=(None, 0), out_batch=None)
    assert "the rows in another order" in message(lambda x: x[0] - x[1], X, batch=0, out_batch=None)
    # A sum over the batch has no rows.
    text = message(total, X, batch=0)
    assert text.startswith("total is not invariant in its batch, with the mode on")
    assert "its output has the shape (), in which axis 0 is not the 6 examples" in text
    assert "pass out_batch=None" in text


@pytest.mark.usefixtures("portable")
def test_a_batch_norm_fails_and_its_mean_is_named():
    text = message(normalized, X, batch=0)
    assert re.search(
        r"its output differs for the first 3 of 6 rows alone \(15 of 15 elements differ, by at "
        r"most \d+ ulp; the first is \[0, 0\]: \S+ and \S+\)",
        text,
    )
    line = normalized.__code__.co_firstlineno + 2
    assert f"test_invariance.py:{line}: lax.reduce_sum is the first equation whose " in text
    assert "operands: f32[3,5]" in text


@pytest.mark.usefixtures("portable")
def test_the_equation_is_named_where_rows_are_merged_and_sorted():
    def program(x):
        rows = x.reshape(-1)[jnp.argsort(x.reshape(-1))]
        back = jnp.zeros(x.size).at[jnp.argsort(x.reshape(-1))].set(jnp.sin(rows))
        logged = jnp.tan(x).sum()  # It may vary, and the rows do not need it.
        return {"rows": back.reshape(x.shape) / jnp.cos(x).sum(), "logged": logged}

    text = message(program, X, batch=0, out_batch={"rows": 0, "logged": None})
    assert "its output['rows'] differs" in text
    assert f"{program.__code__.co_firstlineno + 4}: lax.reduce_sum is the first" in text


@pytest.mark.usefixtures("portable")
def test_loops_and_branches_are_entered_and_the_iteration_is_named():
    def program(x):
        def step(carry, number):
            carry = jax.lax.cond(number == 2, lambda x: x - x.sum(0), jnp.sin, carry)
            return carry, None

        return jax.lax.scan(step, x, jnp.arange(4))[0]

    text = message(program, X, batch=0)
    assert "lax.reduce_sum is the first equation" in text
    assert "in scan (iteration 2) > cond" in text

    def branching(x):
        return jax.lax.cond(x[0, 0] > 9, jnp.sin, lambda x: jnp.exp(x) / x.sum(), x)

    assert "lax.reduce_sum is the first equation" in message(branching, X, batch=0)


@pytest.mark.usefixtures("portable")
def test_positions_do_not_depend_on_later_ones():
    assert_invariant(attention, TEXT, time=1)
    assert_invariant(lambda x: (attention(x), x.sum()), TEXT, time=1, out_time=(1, None))
    text = message(lambda x: attention(x, causal=False), TEXT, time=1)
    assert "is not causal, with the mode on" in text
    assert "its output differs for the first 4 of 7 positions alone" in text
    assert "out_time" in message(lambda x: x.sum(1), TEXT, time=1)


def test_a_future_of_the_same_length_is_compared():
    def peeks(x):
        return x.at[:, 0].add(jnp.where(x.shape[1] == 7, jnp.abs(x).max(1) > 20, 0))

    text = message(peeks, TEXT, time=1)
    assert "its output differs for other positions after the first 4" in text


@pytest.mark.usefixtures("portable")
def test_a_mask_hides_padding():
    live = np.ones((2, 7), bool)
    assert_invariant(lambda x, live: attention(x, live, causal=False), TEXT, live, pad=1)
    masked = jax.grad(lambda x, live: jnp.where(live[..., None], attention(x, live), 0).sum())
    assert_invariant(masked, TEXT, live, pad=1)
    text = message(lambda x: attention(x, causal=False), TEXT, pad=1)
    assert "is not invariant under padding" in text
    assert "differs for 10 more elements of padding (floats 37)" in text


@pytest.mark.usefixtures("portable")
def test_the_padding_can_be_given():
    def of_segments(x, segment):
        return jax.ops.segment_sum(x, segment, 3)

    segments = np.array([0, 1, 1, 2, 2, 2])
    assert_invariant(of_segments, X, segments, pad=0, fill=(None, 3))
    assert "more elements of padding" in message(of_segments, X, segments, pad=0)


def test_a_choice_by_index_or_a_shape_is_no_equation_that_rounds():
    text = message(lambda x: jnp.where(jnp.arange(len(x))[:, None] % 2, x, 0), X, batch=0)
    assert "its output differs for row 5 of 6 alone" in text
    assert "Either the index of a row chooses among them, as\nin a dropout" in text
    text = message(lambda x: x if len(x) > 3 else x[:, :2], X, batch=0)
    assert "float32[3, 2] and not float32[3, 5]" in text


def test_padding_has_numbers_of_each_dtype():
    leaves = [
        jnp.ones(2),
        jnp.ones(2, bool),
        jnp.array([4, 7]),
        jax.random.split(jax.random.key(0)),
    ]
    small, great, one = invariance.of_padding(leaves, [0] * 4, 2, [None] * 4)
    assert small.leaves[0].tolist() == [1, 1, *[37] * 5]
    assert great.leaves[0].tolist() == [1, 1, *[1e4] * 5]
    assert small.leaves[1].tolist() == [True, True, *[False] * 5]
    assert small.leaves[2].tolist() == [4, 7, *[7] * 5]
    assert [len(leaf) for leaf in one.leaves] == [3] * 4
    given = next(invariance.of_padding(leaves, [0] * 4, 2, [0.5, True, -1, None]))
    assert [leaf[-1] for leaf in given.leaves[:3]] == [0.5, True, -1]


OF_SHAPE = jax.ShapeDtypeStruct((6, 5), "float32")


@pytest.mark.parametrize(
    ("args", "axes", "error", "words"),
    [
        ((X, W), {}, ValueError, "none of the arguments 'batch', 'time' and 'pad' names an axis"),
        ((X, W), {"batch": 0, "fill": 1}, ValueError, "argument 'fill' needs 'pad'"),
        ((X, W), {"batch": (0,)}, ValueError, "got (0,), which does not fit the 2 arguments"),
        ((X, W), {"batch": (2, None)}, ValueError, "axis 2 of args[0], whose shape is (6, 5)"),
        ((X, W), {"pad": 0}, ValueError, "different sizes: args[0] has 6, args[1] has 5"),
        ((X, W), {"time": (None, None)}, ValueError, "'time' names no axis; an axis of at least 2"),
        ((X, W), {"batch": (1, 0)}, ValueError, "several axes, [0, 1]; pass 'out_batch'"),
        (
            (X, W),
            {"batch": (0, None), "out_batch": (0, 0)},
            *(ValueError, "argument 'out_batch' got (0, 0), which does not fit the results"),
        ),
        ((X[:1], W), {"batch": (0, None)}, ValueError, "an axis of size 1; an axis of at least 2"),
        ((X, W), {"batch": (True, None)}, TypeError, "and has True for args"),
        ((X, "w"), {"batch": 0}, TypeError, "an axis of args[1], which is str, not an array"),
        ((OF_SHAPE, W), {"batch": (0, None)}, TypeError, "jax.ShapeDtypeStruct, "),
    ],
)
def test_an_axis_or_a_type_that_does_not_fit_is_refused(args, axes, error, words):
    with pytest.raises(error, match=re.escape(words)):
        assert_invariant(layer, *args, **axes)
    with pytest.raises(TypeError, match="argument 'function' must be callable, not int"):
        assert_invariant(3, X, batch=0)
