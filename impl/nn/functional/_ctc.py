"""The op ``ctc_loss``: connectionist temporal classification.

The loss is minus the logarithm of the probability of all paths that give the target once repeated
labels are merged and blanks removed. Two steps, with the blank 0::

    probabilities     [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]        of the classes 0, 1, 2
    target            [1]                                         from the paths 0 1, 1 1 and 1 0
    loss              -log(0.5 * 0.5 + 0.25 * 0.5 + 0.25 * 0.25) = -log 0.4375 = 0.827

Targets come as a matrix or one after another. ``_labels`` returns a matrix for both, of which only
the first elements of a row are read, up to the row's length::

    targets [1, 2, 1], lengths [1, 2]     labels [[1, 2], [2, 1]], read as [1] and [2, 1]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager, few_integers
from impl._core.arguments import Array
from impl._core.axes import within
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode.alert import alert
from impl._mode.decide import Decision, decide
from impl.nn.functional._losses import floats, reduction_of
from impl.ops._indexing import accumulate
from impl.ops._op import op

#: The greatest length of a target.
_MOST = np.iinfo(np.int32).max


@op("torch.nn.functional.ctc_loss")
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array | Sequence[int],
    target_lengths: Array | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> jax.Array:
    """Computes the connectionist temporal classification loss.

    The gradient is PyTorch's: the exponential of ``log_probs`` minus the probability of each class
    given the target, and 0 after the end of an input. It is the derivative of the loss if
    ``log_probs`` comes from ``log_softmax``.

    Memory: arrays of T x n x (2 S + 1) numbers; three of them for a gradient. S is the length of
    the longest target, but at most T.

    Args:
        log_probs: Shape [T, n, classes] or [T, classes], floats: logarithms of probabilities, as
            ``log_softmax`` returns them.
        targets: Integers, each in [0, classes): shape [n, S], or all targets one after another in
            one dimension. In the second form, S is the greatest of ``target_lengths`` if their
            values are known; otherwise (under ``jit``) it is the length of ``targets``.
        input_lengths: n integers, or an array of them, each in [0, T].
        target_lengths: n integers, or an array of them. A target that does not fit into its input
            has an infinite loss.
        blank: The class of the blank between labels. As in PyTorch, a label may have this class
            too, and is then a label like any other.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``. For a mean, each loss is first divided by
            the length of its target, or by 1 if the target is empty.
        zero_infinity: Whether infinite losses, and their gradients, become 0.

    Returns:
        For the reduction ``"none"``, an array of shape [n], or 0-d if ``log_probs`` has no n;
        otherwise 0-d. Its dtype is the dtype of ``log_probs``. float16 and bfloat16 are computed in
        float32 and rounded once. Under ``jit``, where values are unknown, the loss is NaN if a
        length or a label is out of range.

    Raises:
        IndexError: A label is out of range.
        NotImplementedError: ``log_probs`` is not of floats; or a second derivative is taken.
        RuntimeError: Shapes, lengths or ``blank`` do not fit; or a length is out of range.
        ValueError: The reduction is unknown.
    """
    reduction = reduction_of("ctc_loss", reduction)
    log_probs = floats("ctc_loss", "log_probs", log_probs)
    if log_probs.ndim not in (2, 3) or log_probs.size == 0:
        raise RuntimeError(
            f"ctc_loss(): log_probs tensor must have 2 or 3 dimensions and must not be empty, but "
            f"got shape {list(log_probs.shape)}"
        )
    values = log_probs if log_probs.ndim == 3 else log_probs[:, None]
    _, n, classes = values.shape
    blank = arguments.integer("ctc_loss", "blank", blank)
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"ctc_loss(): blank must be in label range, 0 to {classes - 1}, but got {blank}"
        )
    arguments.flags("ctc_loss", zero_infinity=zero_infinity)
    of_inputs, _ = _lengths("input_lengths", input_lengths, n, values.shape[0])
    of_targets, extent = _lengths("target_lengths", target_lengths, n, _MOST, targets)
    longest = _longest(targets, of_targets, target_lengths, extent, values.shape)
    pullback = decide("nn.functional.ctc_loss", "backward", **arguments.facts(log_probs))
    rules = Rules(blank, zero_infinity, pullback)
    labels = arguments.array("ctc_loss", "targets", targets)
    loss: jax.Array = _reduced(values, labels, of_inputs, of_targets, longest, rules, reduction)
    return loss.reshape(()) if reduction == "none" and log_probs.ndim == 2 else loss


# Where the op as a whole is not compiled, each call would compile the recursion again.
@functools.partial(jax.jit, static_argnums=(4, 5, 6), inline=True)
def _reduced(
    log_probs: jax.Array,
    targets: jax.Array,
    of_inputs: jax.Array,
    of_targets: jax.Array,
    longest: int,
    rules: Rules,
    reduction: str,
) -> jax.Array:
    """Returns the reduced loss of ``log_probs``, [times, n, classes]."""
    labels, of_targets = _labels(targets, of_targets, longest, log_probs.shape)
    wide = convert(log_probs, accumulator(log_probs.dtype))
    loss = losses(wide, labels, of_inputs, of_targets, rules)
    if reduction == "mean":
        loss = (loss / jnp.maximum(of_targets, 1).astype(loss.dtype)).mean()
    elif reduction == "sum":
        loss = loss.sum()
    return convert(loss, log_probs.dtype)


class _Extent(NamedTuple):
    """The facts about lengths that checks and shapes depend on, for concatenated targets."""

    negative: bool
    greatest: int
    total: int


def _extent(lengths: np.ndarray[Any, Any]) -> _Extent:
    numbers = lengths.ravel().tolist()
    return _Extent(min(numbers, default=0) < 0, max(numbers, default=0), sum(numbers))


def _lengths(
    name: str, value: Any, n: int, most: int, targets: Any = None
) -> tuple[jax.Array | np.ndarray[Any, Any], _Extent | None]:
    """Returns lengths as int32, with -1 for those out of range, and their extent.

    The lengths are a NumPy array if the values are known. The extent is None if they are not, or
    if ``targets`` are not concatenated, so that nothing depends on it.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        ints = [arguments.integer("ctc_loss", f"{name}[{i}]", item) for i, item in enumerate(value)]
        value = np.array(ints, np.int64)
    array = arguments.array("ctc_loss", name, value)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuntimeError(f"ctc_loss(): {name} must be integral, but got {array.dtype}")
    if array.size != n:
        raise RuntimeError(
            f"ctc_loss(): {name} must be of size batch_size, {n}, but got {array.size}"
        )
    extent = eager.ask(_extent, value) if getattr(targets, "ndim", 0) == 1 else None
    if extent is None:
        test = functools.partial(few_integers.range_test, 0, most + 1)
        eager.when_known(functools.partial(_check_lengths, name, most), value, faster=test)
    elif extent.negative or extent.greatest > most:
        eager.refuse()
        _check_lengths(name, most, np.asarray(value))
    known = arguments.if_known(value)
    if known is not None:
        return known.reshape(n).astype(np.int32), extent
    wide = array.reshape(n).astype(jnp.promote_types(array.dtype, jnp.int32))
    return jnp.where((wide >= 0) & (wide <= most), wide.astype(jnp.int32), -1), extent


def _check_lengths(name: str, most: int, values: np.ndarray[Any, Any]) -> None:
    if arguments.within(values, 0, most + 1):
        return
    lengths = values.reshape(-1)
    position = int(np.argmax((lengths < 0) | (lengths > most)))
    rule = f"at most {most}" if lengths[position] >= 0 else "at least 0"
    raise RuntimeError(
        f"ctc_loss(): Expected {name} to have value {rule}, but got value {lengths[position]} "
        f"at position {position}"
    )


def _longest(
    targets: Any,
    lengths: jax.Array | np.ndarray[Any, Any],
    given: Any,
    extent: _Extent | None,
    shape: tuple[int, ...],
) -> int:
    """Checks targets, and returns how many labels of a target are read.

    ``lengths`` are checked, ``given`` are as the caller gave them. ``extent`` is None unless
    targets are concatenated and values are known.
    """
    times, n, classes = shape
    array = arguments.array("ctc_loss", "targets", targets)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise RuntimeError(f"ctc_loss(): targets must be integral, but got {array.dtype}")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[0] != n):
        raise RuntimeError(
            f"ctc_loss(): Expected targets of shape [{n}, S], or one after another in 1 dimension, "
            f"but got shape {list(array.shape)}"
        )
    test = functools.partial(few_integers.range_test, 0, classes)
    if array.ndim == 2:
        of_targets = lengths if isinstance(lengths, np.ndarray) else given
        eager.when_known(functools.partial(_check_fit, array.shape[1]), of_targets)
        check = functools.partial(_check_rows, classes)
        eager.when_known(check, targets, of_targets, faster=test)
        # A target that is longer than the input has the probability 0.
        return times
    if extent is None:  # One target may have all labels.
        return min(array.shape[0], times)
    if extent.total != array.shape[0]:
        raise RuntimeError(
            f"ctc_loss(): Expected targets to have size {extent.total}, the sum of target_lengths, "
            f"at dimension 0, but got size {array.shape[0]}"
        )
    eager.when_known(functools.partial(_check_labels, classes), targets, faster=test)
    return min(extent.greatest, times)


def _labels(
    targets: jax.Array, lengths: jax.Array, longest: int, shape: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Returns labels of shape [n, S], and lengths, with -1 for targets that lack labels.

    ``shape`` is the shape of the logarithms of probabilities, and ``longest`` the greatest number
    of labels of a target that are read.
    """
    _, n, classes = shape
    inside = within(targets.astype(jnp.promote_types(targets.dtype, jnp.int32)), classes)
    if targets.ndim == 2:
        fits = (lengths >= 0) & (lengths <= targets.shape[1])
        return inside[:, :longest], jnp.where(fits, lengths, -1)
    if targets.size == 0:  # jnp.take refuses an empty array.
        return jnp.zeros((n, 0), jnp.int32), jnp.where(lengths > 0, -1, lengths)
    ends = jnp.cumsum(jnp.maximum(lengths, 0), dtype=jnp.int32)
    starts = ends - jnp.maximum(lengths, 0)
    indices = starts[:, None] + jnp.arange(longest, dtype=jnp.int32)[None]
    labels = jnp.take(inside, indices, mode="fill", fill_value=classes)
    return labels, jnp.where(ends <= targets.shape[0], lengths, -1)


def _check_fit(most: int, lengths: np.ndarray[Any, Any]) -> None:
    """Refuses lengths that are greater than the length of a row of targets."""
    longest = max(lengths.ravel().tolist(), default=0)
    if longest > most:
        raise RuntimeError(
            f"ctc_loss(): Expected targets to have size at least {longest}, the greatest of "
            f"target_lengths, at dimension 1, but got size {most}"
        )


def _check_rows(classes: int, values: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> None:
    """Refuses labels out of range among the first labels of each row, which are read."""
    _check_labels(classes, values, np.arange(values.shape[1]) < lengths.reshape(-1, 1))


def _check_labels(classes: int, values: np.ndarray[Any, Any], read: Any = True) -> None:
    """Refuses labels out of range."""
    wrong = ((values < 0) | (values >= classes)) & read
    if np.any(wrong):
        position = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise IndexError(
            f"ctc_loss(): Target {values[position]} is out of bounds, at position {list(position)} "
            f"of argument 'targets'; allowed are 0 to {classes - 1}"
        )


@dataclasses.dataclass(frozen=True)
class Rules:
    """The static arguments of a loss; ``pullback`` is the decision of the gradient."""

    blank: int
    zero_infinity: bool
    pullback: Decision


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def losses(
    log_probs: jax.Array,
    labels: jax.Array,
    input_lengths: jax.Array,
    target_lengths: jax.Array,
    rules: Rules,
) -> jax.Array:
    """Returns the negative logarithm of the probability of each target, [n].

    ``labels`` have shape [n, S]; those after the end of a target are not used. A length out of
    range is -1. It gives NaN, as a label out of range does. A target longer than S has the
    probability 0.
    """
    states = _States.of(log_probs, labels, input_lengths, target_lengths, rules)
    return _or_zero(states.forward(keep=False)[0], rules)


@losses.defjvp
def _jvp(rules: Rules, primals: Any, tangents: Any) -> Any:
    log_probs, labels, input_lengths, target_lengths = primals
    states = _States.of(_once(log_probs), labels, input_lengths, target_lengths, rules)
    loss, alphas = states.forward(keep=True)
    gradient = alert(_gradient(states, loss, alphas, rules), rules.pullback)
    return _or_zero(loss, rules), (gradient * tangents[0]).sum((0, 2))


@jax.custom_jvp
def _once(log_probs: jax.Array) -> jax.Array:
    return log_probs


@_once.defjvp
def _once_jvp(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "ctc_loss(): its second derivative is not implemented, as in PyTorch; differentiate once"
    )


def _or_zero(loss: jax.Array, rules: Rules) -> jax.Array:
    return jnp.where(jnp.isposinf(loss), 0, loss) if rules.zero_infinity else loss


@dataclasses.dataclass(frozen=True)
class _States:
    """The 2 S + 1 states of targets, and the logarithms of their probabilities."""

    log_probs: jax.Array  # [T, n, classes], the argument of the op
    classes: jax.Array  # [n, 2 S + 1]; after the states of a target, the number of classes
    emitted: jax.Array  # [T, n, 2 S + 1], the logarithm for each state's class at each time
    skips: jax.Array  # [n, 2 S + 1], whether a state may follow the state two before it
    last: jax.Array  # [n], the last time of each input
    #: [n, 2 S + 1], whether a state is one of the last two of its target; never if the target is
    #: longer than S.
    ends: jax.Array
    lengths: jax.Array  # [n], of the targets

    @classmethod
    def of(
        cls,
        log_probs: jax.Array,
        labels: jax.Array,
        input_lengths: jax.Array,
        target_lengths: jax.Array,
        rules: Rules,
    ) -> _States:
        n, longest = labels.shape
        count = log_probs.shape[2]
        labels = within(labels, count)
        blanks = jnp.full((n, longest, 1), rules.blank, labels.dtype)
        pairs = jnp.concatenate([blanks, labels[:, :, None]], 2).reshape(n, 2 * longest)
        classes = jnp.pad(pairs, ((0, 0), (0, 1)), constant_values=rules.blank)
        state = jnp.arange(2 * longest + 1, dtype=jnp.int32)[None]
        end = 2 * target_lengths[:, None]
        classes = jnp.where(state <= end, classes, rules.blank)
        at_each_time = jnp.broadcast_to(classes, (log_probs.shape[0], *classes.shape))
        two_before = jnp.pad(classes, ((0, 0), (2, 0)), mode="edge")[:, :-2]
        return cls(
            log_probs=log_probs,
            classes=jnp.where(state <= end, classes, count),
            emitted=jnp.take_along_axis(log_probs, at_each_time, 2, mode="fill"),
            skips=(state >= 2) & (classes != two_before),
            last=input_lengths - 1,
            ends=(state <= end) & (state >= end - 1),
            lengths=target_lengths,
        )

    def forward(self, *, keep: bool) -> tuple[jax.Array, jax.Array | None]:
        """Returns the loss of each target, [n], and with ``keep`` the alphas, [T, n, 2 S + 1]."""
        state = jnp.arange(self.classes.shape[1], dtype=jnp.int32)

        def step(before: jax.Array, now: Any) -> Any:
            emitted, time = now
            after = _log_add_exp(before, _moved(before, 1), _gated(_moved(before, 2), self.skips))
            alpha = jnp.where(time == 0, jnp.where(state < 2, 0, -jnp.inf), after) + emitted
            # After the end of an input, its states no longer change.
            alpha = jnp.where((time <= self.last)[:, None], alpha, before)
            return alpha, alpha if keep else None

        # The states of an input without times: an empty target has the probability 1.
        initial = jnp.where(state == 0, 0, -jnp.inf).astype(self.emitted.dtype)
        initial = vary_like(jnp.broadcast_to(initial, self.classes.shape), self.emitted, self.last)
        times = jnp.arange(self.emitted.shape[0], dtype=jnp.int32)
        final, alphas = jax.lax.scan(step, initial, (self.emitted, times))
        ends = jnp.where(self.ends, final, -jnp.inf)
        greatest = ends.max(1, keepdims=True)
        base = jnp.where(jnp.isneginf(greatest), 0, greatest)
        likelihood = jnp.log(jnp.exp(ends - base).sum(1)) + base[:, 0]
        known = (self.lengths >= 0) & (self.last >= -1)
        return jnp.where(known, -likelihood, jnp.nan), alphas

    def posteriors(self, loss: jax.Array, alphas: jax.Array) -> jax.Array:
        """Returns the probability of each state at each time, given the target: [T, n, 2 S + 1]."""

        def step(after: jax.Array, now: Any) -> Any:
            emitted, alpha, time = now
            skipped = _moved(_gated(after, self.skips), -2)
            beta = _log_add_exp(after, _moved(after, -1), skipped)
            beta = jnp.where((time == self.last)[:, None], last, beta)
            beta = jnp.where((time <= self.last)[:, None], beta, -jnp.inf)
            return beta + emitted, jnp.exp(alpha + beta + loss[:, None])

        last = jnp.where(self.ends, 0, -jnp.inf).astype(loss.dtype)
        initial = vary_like(jnp.full_like(alphas[0], -jnp.inf), alphas, self.last)
        times = jnp.arange(self.emitted.shape[0], dtype=jnp.int32)
        of_times = (self.emitted, alphas, times)
        posteriors: jax.Array = jax.lax.scan(step, initial, of_times, reverse=True)[1]
        return posteriors


def _gradient(states: _States, loss: jax.Array, alphas: Any, rules: Rules) -> jax.Array:
    """Returns PyTorch's gradient for ``log_probs``.

    PyTorch adds ``exp(log_probs)`` to the derivative. The sum is the derivative with respect
    to the logits, the argument of ``log_softmax``, and the gradient of ``log_softmax`` does not
    change it. The states of one class are one sum.
    """
    times, n, count = states.log_probs.shape
    posteriors = states.posteriors(loss, alphas)
    of_classes = accumulate(
        jnp.zeros((n, count, times), loss.dtype),
        states.classes[:, :, None],
        jnp.transpose(posteriors, (1, 2, 0)),
    )
    gradient = jnp.exp(states.log_probs) - jnp.transpose(of_classes, (2, 0, 1))
    infinite = jnp.isposinf(loss)[:, None]
    gradient = jnp.where(infinite, 0 if rules.zero_infinity else jnp.nan, gradient)
    time = jnp.arange(times, dtype=jnp.int32)[:, None, None]
    return jnp.where(time <= states.last[None, :, None], gradient, 0)


def _moved(states: jax.Array, by: int) -> jax.Array:
    """Shifts values by ``by`` states; the states at the free end get the probability 0."""
    impossible = jnp.array(-jnp.inf, states.dtype)
    moved: jax.Array = jax.lax.pad(states, impossible, ((0, 0, 0), (by, -by, 0)))
    return moved


def _gated(states: jax.Array, open_: jax.Array) -> jax.Array:
    return jnp.where(open_, states, -jnp.inf)


def _log_add_exp(*terms: jax.Array) -> jax.Array:
    """Returns the logarithm of the sum of the exponentials of the terms."""
    greatest = functools.reduce(jnp.maximum, terms)
    base = jnp.where(jnp.isneginf(greatest), 0, greatest)
    return jnp.log(functools.reduce(jnp.add, (jnp.exp(term - base) for term in terms))) + base
