"""Connectionist temporal classification: the alpha-beta recursion in log space, and its gradient.

A target of S labels has 2 S + 1 states: blank, first label, blank, second label, and so on to the
last blank. The last axis of an array of states has one element for each. A target shorter than S
has fewer states; the elements after them do not influence them. For the target ``a b``:

    states           blank  a  blank  b  blank         alpha[t]: the log probability of all ways to
    number             0    1    2    3    4           be in a state at time t
    ends                              3    4           the loss: -log(exp(alpha) of both ends)
    from state 1     to 1, 2 and, if a and b differ, to 3

Source: Graves et al., "Connectionist temporal classification", ICML 2006.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from impl._core.axes import within
from impl._core.shard_axes import vary_like
from impl._mode.decide import Decision
from impl._primitives.alert import alert
from impl.ops._indexing import accumulate


@dataclasses.dataclass(frozen=True)
class Rules:
    """The static arguments of a loss.

    Attributes:
        blank: The class of the states between labels.
        zero_infinity: Whether an infinite loss becomes 0, with a gradient of 0.
        pullback: The decision of the gradient.
    """

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
    """Returns the negative logarithm of the probability of each target.

    Args:
        log_probs: Shape [T, n, classes], in the dtype of the computation.
        labels: Shape [n, S], integers. Labels after the end of a target are not used.
        input_lengths: Shape [n], int32, each in [0, T]; or -1 if out of range.
        target_lengths: Shape [n], int32; or -1 if out of range. A target longer than S has the
            probability 0.
        rules: The static arguments.

    Returns:
        An array of shape [n]; NaN if a length or a label is out of range.
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
    """The states of targets, and the logarithms of their probabilities.

    Attributes:
        log_probs: The argument of the op: [T, n, classes].
        classes: The class of each state; after the states of a target, the number of classes:
            [n, 2 S + 1].
        emitted: The logarithm of the probability of each state's class at each time:
            [T, n, 2 S + 1].
        skips: Whether a state may follow the state two before it: [n, 2 S + 1].
        last: The last time of each input: [n].
        ends: Whether a state is one of the last two of its target: [n, 2 S + 1]. False everywhere
            if the target is longer than S.
        lengths: The length of each target: [n].
    """

    log_probs: jax.Array
    classes: jax.Array
    emitted: jax.Array
    skips: jax.Array
    last: jax.Array
    ends: jax.Array
    lengths: jax.Array

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
