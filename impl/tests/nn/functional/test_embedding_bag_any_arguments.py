"""Any arguments of ``embedding_bag``: each call has a result, or an error of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

F = impl.nn.functional
#: The exceptions of impl. Another exception, or another beginning of the message, is a fault.
REFUSALS = (NotImplementedError, RuntimeError, TypeError, ValueError)


def gradient(index, weight, offsets, factors, options):
    """Returns the shapes of the result and of the gradients, without running the program."""

    def loss(weight, factors):
        out = F.embedding_bag(index, weight, offsets, per_sample_weights=factors, **options)
        return out.astype(jnp.float32).sum(), out

    arguments = (0,) if factors is None else (0, 1)
    return jax.eval_shape(jax.grad(loss, arguments, has_aux=True), weight, factors)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_every_call_has_a_result_or_an_error_of_its_own(mode):
    # Imported here, since the import takes a second.
    from hypothesis import given, settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415

    sizes = st.sampled_from([0, 1, 3])
    numbers = st.sampled_from([0, 1, -1, 2.5, float("inf"), float("-inf"), float("nan")])

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(data=st.data())
    def check(data):
        draw = data.draw
        rows, width, n = draw(sizes), draw(sizes), draw(sizes)
        bags = draw(st.none() | sizes)
        shape = (n,) if bags is None else (bags, n)
        dtypes = st.sampled_from([np.int32, np.int64, np.uint8])
        low, high = draw(st.sampled_from([(0, max(rows, 1)), (-2, rows + 2)]))
        seed = draw(st.integers(0, 9))
        index = np.random.default_rng(seed).integers(low, high, shape).astype(draw(dtypes))
        starts = draw(st.lists(st.integers(0, n), max_size=3))
        has_offsets = (bags is None) is not draw(st.sampled_from([False] * 9 + [True]))
        offsets = np.array(sorted([0, *starts])[draw(st.integers(0, 1)) :], draw(dtypes))
        factors = np.ones(shape, np.float32) if draw(st.booleans()) and mode == "sum" else None
        options = {
            "mode": mode,
            "max_norm": draw(st.none() | numbers),
            "norm_type": draw(numbers),
            "scale_grad_by_freq": draw(st.booleans()) and mode != "max",
            "sparse": draw(st.booleans()) and mode != "max",
            "include_last_offset": draw(st.booleans()),
            "padding_idx": draw(st.none() | st.integers(-rows - 1, rows)),
        }
        weight = np.ones((rows, width), np.float32)
        with impl.deterministic(draw(st.booleans()), profile="complete"):
            try:
                gradients, out = gradient(
                    index, weight, offsets if has_offsets else None, factors, options
                )
            except REFUSALS as error:
                assert str(error).startswith("embedding_bag(): ")  # noqa: PT017
                return
        count = len(offsets) - options["include_last_offset"] if bags is None else bags
        assert out.shape == (count, width)
        assert gradients[0].shape == weight.shape

    check()
