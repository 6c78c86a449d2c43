"""The losses of classes: ``cross_entropy`` and ``nll_loss``.

``cross_entropy`` subtracts the greatest logit before it adds exponentials ("log-sum-exp"), so that
none overflows: the losses below are the same if 1000 is added to all logits::

    logits                [log 2, 0, 0]           [0, 0, log 2]
    softmax               [0.5, 0.25, 0.25]       [0.25, 0.25, 0.5]
    target                0                       1
    pick of log-softmax   log 0.5                 log 0.25
    loss                  -log 0.5 = 0.693        -log 0.25 = 1.386      their mean is 1.040
    gradient of the sum   [-0.5, 0.25, 0.25]      [0.25, -0.75, 0.5]
"""

from __future__ import annotations

import functools
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager, few_integers
from impl._core.arguments import Array
from impl._core.lax_functions import where
from impl._core.numerics import accumulator, convert, fence
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import Decision, decide_both
from impl.ops._indexing import gather
from impl.ops._op import op

_DEFAULT_IGNORE = -100


@op("torch.nn.functional.cross_entropy")
def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = _DEFAULT_IGNORE,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> jax.Array:
    """Computes the cross entropy between targets and the softmax of ``input``.

    Args:
        input: Shape [classes], [n, classes] or [n, classes, ...], floats.
        target: Either classes: the shape of ``input`` without the axis of classes; int32, int64 or
            uint8; each in [0, classes) or equal to ``ignore_index``. Under ``jit``, where values
            are unknown, the loss of any other target is NaN. Or the probability of each class: the
            shape of ``input``, floats.
        weight: Shape [classes], a factor for the loss of each class. If targets are classes, it
            has the dtype of ``input``. It has a derivative, which PyTorch's does not have.
        size_average: Deprecated in PyTorch: False means ``reduction="sum"``.
        ignore_index: The target of elements that do not count. Only if targets are classes.
        reduce: Deprecated in PyTorch: False means ``reduction="none"``.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``. For classes, a mean is the sum divided by
            the sum of the weights of the elements; for probabilities, by the number of elements.
        label_smoothing: The share of each target that is spread evenly over all classes, from 0
            to 1.

    Returns:
        For the reduction ``"none"``, an array of the shape of ``input`` without the axis of
        classes; otherwise 0-d. Its dtype is the dtype of ``input``; with probabilities, it is
        promoted from ``input``, ``target`` and ``weight``. float16 and bfloat16 are computed in
        float32 and rounded once.

    Raises:
        IndexError: A target is out of range.
        NotImplementedError: ``input`` is not of floats.
        RuntimeError: Shapes or dtypes do not fit; ``label_smoothing`` is out of range; or
            ``ignore_index`` is given for probabilities.
        ValueError: The number of targets does not fit, or the reduction is unknown.
    """
    reduction = reduction_of("cross_entropy", reduction, size_average, reduce)
    logits = floats("cross_entropy", "input", input)
    values = _by_class("cross_entropy", logits)
    weight = _weight_of("cross_entropy", weight, values.shape[1])
    smoothing = _smoothing(label_smoothing)
    facts = arguments.facts(logits)
    decision, pullback = decide_both("nn.functional.cross_entropy", **facts)
    values = alert_pullback(alert(values, decision), pullback)
    if logits.shape == np.shape(target):
        probabilities = _probabilities(target, logits, ignore_index).reshape(values.shape)
        dtypes = [each.dtype for each in (logits, probabilities, weight) if each is not None]
        dtype = jnp.result_type(*dtypes)
        wide = accumulator(dtype)
        terms = _terms_of_probabilities(
            _LogSoftmax(values, wide), convert(probabilities, wide), weight, smoothing
        )
        number = terms.size if values.size else 0
        return _reduced(terms, reduction, lambda: jnp.asarray(number, wide), logits, dtype)
    classes, counts = _class_targets("cross_entropy", target, logits, ignore_index)
    if weight is not None:
        arguments.same_dtype("cross_entropy", logits, weight=weight)
    wide = accumulator(logits.dtype)
    terms, weights = _terms_of_classes(
        _LogSoftmax(values, wide), classes, counts, weight, smoothing, pullback
    )
    return _reduced_of_classes(terms, weights, counts, reduction, logits)


class _LogSoftmax:
    """The logarithm of the softmax of values along the second axis, the axis of classes."""

    def __init__(self, values: jax.Array, dtype: jax.typing.DTypeLike) -> None:
        self.values = convert(values, dtype)
        self.greatest = jax.lax.stop_gradient(self.values.max(1, keepdims=True, initial=-jnp.inf))
        self.log_of_sum = _log_of_sum(self.values, self.greatest)

    def all_classes(self) -> jax.Array:
        """Returns the logarithms of all classes.

        The greatest value is subtracted first, so that small differences of large values stay.
        """
        return self.values - self.greatest - self.log_of_sum

    def of(self, classes: jax.Array, counts: jax.Array) -> jax.Array:
        """Returns the logarithm of one class for each element that counts."""
        return pick(self.values, classes, counts) - self.greatest - self.log_of_sum


@jax.custom_jvp
def _log_of_sum(values: jax.Array, greatest: jax.Array) -> jax.Array:
    """Returns ``log(sum(exp(values - greatest)))`` along the second axis, with length 1 there."""
    return jnp.log(_sum(jnp.exp(values - greatest)))


@_log_of_sum.defjvp
def _jvp_of_log_of_sum(primals: Any, tangents: Any) -> Any:
    values, greatest = primals
    exponentials = jnp.exp(values - greatest)
    total = _sum(exponentials)
    return jnp.log(total), _sum(exponentials / total * tangents[0])


def _sum(values: jax.Array) -> jax.Array:
    return values.sum(1, keepdims=True)


def _terms_of_classes(
    log_softmax: _LogSoftmax,
    classes: jax.Array,
    counts: jax.Array,
    weight: jax.Array | None,
    smoothing: float,
    pullback: Decision,
) -> tuple[jax.Array, jax.Array | None]:
    """Returns the loss of each element, and its weight if there are weights."""
    terms, weights = -log_softmax.of(classes, counts), None
    if weight is not None:
        wide = convert(weight, terms.dtype)
        weights = _weights_of(wide, classes, decision=pullback)
        terms = terms * weights
    if smoothing > 0:
        logs = log_softmax.all_classes()
        if weight is not None:
            logs = logs * _along_classes(wide, logs)
        terms = (1 - smoothing) * terms + (smoothing / logs.shape[1]) * -_sum(logs)
    return terms, weights


def _terms_of_probabilities(
    log_softmax: _LogSoftmax, probabilities: jax.Array, weight: jax.Array | None, smoothing: float
) -> jax.Array:
    """Returns the loss of each element."""
    if smoothing > 0:
        uniform = smoothing / max(probabilities.shape[1], 1)
        probabilities = probabilities * (1 - smoothing) + uniform
    products = log_softmax.all_classes() * probabilities
    if weight is not None:
        products = products * _along_classes(convert(weight, products.dtype), products)
    return -_sum(products)


def _along_classes(weight: jax.Array, values: jax.Array) -> jax.Array:
    """Reshapes [classes] so that it broadcasts along the second axis of ``values``."""
    return weight.reshape(1, -1, *[1] * (values.ndim - 2))


def _smoothing(value: Any) -> float:
    if not isinstance(value, numbers.Real):
        raise arguments.wrong_type("cross_entropy", "label_smoothing", "float", value)
    smoothing = float(value)
    if not 0 <= smoothing <= 1:
        raise RuntimeError(
            f"cross_entropy(): label_smoothing must be between 0.0 and 1.0. Got: {smoothing}"
        )
    return smoothing


def _probabilities(target: Any, input: jax.Array, ignore_index: int) -> jax.Array:
    probabilities = arguments.array("cross_entropy", "target", target)
    if not jnp.issubdtype(probabilities.dtype, jnp.floating):
        raise RuntimeError(
            "cross_entropy(): Expected floating point type for target with class probabilities, "
            f"which one of the shape of input, {list(input.shape)}, is; got {probabilities.dtype}"
        )
    if arguments.integer("cross_entropy", "ignore_index", ignore_index) != _DEFAULT_IGNORE:
        raise RuntimeError(
            f"cross_entropy(): ignore_index is not supported for floating point target, but got "
            f"{ignore_index}"
        )
    return probabilities


@op("torch.nn.functional.nll_loss")
def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Computes the negative log-likelihood of the target of each element.

    Arguments, results and exceptions are as for ``cross_entropy``, with these differences:
    ``input`` holds logarithms of probabilities, ``target`` holds classes, and a mean is NaN if no
    element counts. Under ``jit`` a target that is out of range has no gradient.
    """
    reduction = reduction_of("nll_loss", reduction, size_average, reduce)
    input = floats("nll_loss", "input", input)
    values = _by_class("nll_loss", input)
    classes, counts = _class_targets("nll_loss", target, input, ignore_index)
    weight = _weight_of("nll_loss", weight, values.shape[1])
    if weight is not None:
        arguments.same_dtype("nll_loss", input, weight=weight)
    facts = arguments.facts(input, reduction=reduction)
    decision, pullback = decide_both("nn.functional.nll_loss", **facts)
    values = alert_pullback(alert(values, decision), pullback)
    wide = accumulator(input.dtype)
    terms, weights = -convert(pick(values, classes, counts), wide), None
    if weight is not None:
        weights = convert(_weights_of(weight, classes, decision=pullback), wide)
        terms = terms * weights
    return _reduced_of_classes(terms, weights, counts, reduction, input)


REDUCTIONS = ("none", "mean", "sum")


def reduction_of(
    function: str, reduction: Any, size_average: Any = None, reduce: Any = None
) -> str:
    """Returns the reduction that the arguments name; the last two are deprecated in PyTorch.

    Raises:
        ValueError: The reduction is unknown.
    """
    if size_average is not None or reduce is not None:
        mean_or_sum = "mean" if size_average is None or size_average else "sum"
        reduction = mean_or_sum if reduce is None or reduce else "none"
        eager.refuse()  # A compiled program would warn at its first call alone.
        warnings.warn(
            f"{function}(): size_average and reduce will be deprecated, please use "
            f"reduction={reduction!r} instead",
            UserWarning,
            stacklevel=3,
        )
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{function}(): {reduction} is not a valid value for reduction; allowed are "
            f"{', '.join(map(repr, REDUCTIONS))}"
        )
    return str(reduction)


def floats(function: str, name: str, value: Any) -> jax.Array:
    """Returns ``value`` as a JAX array; one that is not of floats raises a NotImplementedError."""
    array = arguments.array(function, name, value)
    arguments.check_kind(function, array.dtype, "floating", name=name)
    return array


def _weight_of(function: str, weight: Any, classes: int) -> jax.Array | None:
    """Returns ``weight`` as a JAX array of shape [classes], or None."""
    if weight is None:
        return None
    array = arguments.array(function, "weight", weight)
    if array.shape != (classes,):
        raise RuntimeError(
            f"{function}(): weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(array.shape)}"
        )
    return array


def _by_class(function: str, value: jax.Array) -> jax.Array:
    """Reshapes [classes] or [n, classes, ...] to [n, classes] or [n, classes, rest].

    The result has no last axis of length 1: with one, a sum over classes takes XLA 50 times as long
    on a CPU.
    """
    if value.ndim == 0:
        raise ValueError(f"{function}(): Expected 1 or more dimensions in 'input' (got 0)")
    n, classes, *rest = value.shape if value.ndim > 1 else (1, *value.shape)
    count = math.prod(rest)
    return value.reshape((n, classes) if count == 1 else (n, classes, count))


def _class_targets(
    function: str, target: Any, input: jax.Array, ignore_index: int
) -> tuple[jax.Array, jax.Array]:
    """Returns the class of each element, and whether the element counts.

    Both have shape [n, 1] or [n, 1, rest]; the class of an element that does not count is 0.
    """
    target = arguments.native(function, "target", target)
    array = jnp.asarray(target)
    if np.dtype(target.dtype) not in (np.int32, np.int64, np.uint8):
        raise RuntimeError(
            f"{function}(): expected target dtype to be int32, int64 or uint8, but got "
            f"{target.dtype}"
        )
    _check_shape(function, array.shape, input.shape)
    ignore_index = arguments.integer(function, "ignore_index", ignore_index)
    _check_range(function, target, input.shape[min(input.ndim - 1, 1)], ignore_index)
    array = array.astype(jnp.promote_types(array.dtype, jnp.int32))
    n, _, *rest = _by_class(function, input).shape
    array = array.reshape(n, 1, *rest)
    limits = jnp.iinfo(array.dtype)
    if not limits.min <= ignore_index <= limits.max:
        return array, jnp.ones(array.shape, bool)
    counts = array != ignore_index
    return where(counts, array, 0), counts


def _check_shape(function: str, target: tuple[int, ...], input: tuple[int, ...]) -> None:
    allowed = [list(input[:1] + input[2:])] if len(input) > 1 else [[], [1]]
    if list(target) in allowed:
        return
    if len(input) == 1 and len(target) == 1:
        raise ValueError(
            f"{function}(): For 1D input, 1D target must have size 1, but got target size: "
            f"{target[0]}"
        )
    if len(input) > 1 and target[:1] != input[:1]:
        raise ValueError(
            f"{function}(): Expected input batch_size ({input[0]}) to match target batch_size "
            f"({target[0] if target else 0})"
        )
    raise RuntimeError(
        f"{function}(): Expected target size {allowed[0]} for an input of shape {list(input)}, got "
        f"{list(target)}"
    )


def _check_range(function: str, target: Any, classes: int, ignore_index: int) -> None:
    def check(values: np.ndarray[Any, Any]) -> None:
        if arguments.within(values, 0, classes):
            return
        wrong = ((values < 0) | (values >= classes)) & (values != ignore_index)
        if np.any(wrong):
            position = tuple(int(i) for i in np.argwhere(wrong)[0])
            allowed = f"0 to {classes - 1} and" if classes else "only"
            raise IndexError(
                f"{function}(): Target {values[position]} is out of bounds, at position "
                f"{list(position)} of argument 'target'; allowed are {allowed} ignore_index, "
                f"{ignore_index}"
            )

    test = functools.partial(few_integers.range_test, 0, classes)
    eager.when_known(check, target, faster=test)


@jax.custom_jvp
def pick(values: jax.Array, classes: jax.Array, counts: jax.Array) -> jax.Array:
    """Returns the value of the class of each element, or 0 if the element does not count.

    A cotangent goes to this class alone. No two cotangents are added, so the gradient needs no
    scatter. ``values`` have shape [n, classes] or [n, classes, rest]; a class out of range reads
    NaN.
    """
    operands = [array if array.ndim == 3 else array[:, :, None] for array in (values, classes)]
    picked = gather(*operands, pullback=Decision()).reshape(classes.shape)
    return where(counts, picked, jnp.zeros_like(picked))


@pick.defjvp
def _pick_jvp(primals: Any, tangents: Any) -> Any:
    values, classes, counts = primals
    picked = (jax.lax.broadcasted_iota(classes.dtype, values.shape, 1) == classes) & counts
    tangent = where(picked, tangents[0], jnp.zeros_like(tangents[0])).sum(1, keepdims=True)
    return pick(*primals), tangent


def _weights_of(weight: jax.Array, classes: jax.Array, *, decision: Decision) -> jax.Array:
    """Returns the weight of the class of each element, in the shape of ``classes``."""
    flat = classes.reshape(1, -1, 1)
    return gather(weight[None, :, None], flat, pullback=decision).reshape(classes.shape)


def _reduced_of_classes(
    terms: jax.Array, weights: jax.Array | None, counts: jax.Array, reduction: str, input: jax.Array
) -> jax.Array:
    """Reduces the losses of the elements that count; 0 takes the place of the rest."""
    zero = jnp.zeros((), terms.dtype)

    def divisor() -> jax.Array:
        if weights is None:
            return counts.sum(dtype=jnp.result_type(int)).astype(terms.dtype)
        return jnp.sum(where(counts, weights, zero).reshape(-1))

    return _reduced(where(counts, terms, zero), reduction, divisor, input, input.dtype)


def _reduced(
    terms: jax.Array,
    reduction: str,
    divisor: Callable[[], jax.Array],
    input: jax.Array,
    dtype: jax.typing.DTypeLike,
) -> jax.Array:
    """Reduces the losses of all elements of ``input``; a mean divides by ``divisor()``."""
    if reduction == "none":
        shape = input.shape[:1] + input.shape[2:] if input.ndim > 1 else ()
        return convert(terms, dtype).reshape(shape)
    # The terms may not be computed inside of the loop of the sum, one by one.
    total = jnp.sum(fence(terms).reshape(-1))
    return convert(total / divisor() if reduction == "mean" else total, dtype)
