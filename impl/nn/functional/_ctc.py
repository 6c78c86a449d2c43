"""Connectionist temporal classification: the alpha-beta recursion in log space, and its gradient.

Arrays of states have 2 S + 1 along their last axis: blank, first label, blank, second label, and
so on to the last blank. What lies beyond a target's own states reaches none of them.
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
from impl._primitives.scatter_accumulate import scatter_accumulate


@dataclasses.dataclass(frozen=True)
class Rules:
    """What a loss does beside its arrays.

    Attributes:
        blank: The class of the states between labels.
        zero_infinity: Whether an infinite loss is 0, with a gradient of 0.
        pullback: What differentiating it does.
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
    """The negative logarithm of the probability of each target.

    Args:
        log_probs: Shape [T, n, classes], of the dtype that is computed in.
        labels: Shape [n, S], integers; those beyond a target's length may be anything.
        input_lengths: Shape [n], int32, each in [0, T], or -1 if it is none.
        target_lengths: Shape [n], int32, or -1 as well. A target longer than S has no probability.
        rules: What else there is to know.

    Returns:
        Shape [n]; NaN where a length or a label is none.
    """
    states = _States.of(log_probs, labels, input_lengths, target_lengths, rules)
    return _or_zero(states.forward(keep=False)[0], rules)


@losses.defjvp
def _jvp(rules: Rules, primals: Any, tangents: Any) -> Any:
    log_probs, labels, input_lengths, target_lengths = primals
    states = _States.of(_once(log_probs), labels, input_lengths, target_lengths, rules)
    loss, alphas = states.forward(keep=True)
    slope = alert(_gradient(states, loss, alphas, rules), rules.pullback)
    return _or_zero(loss, rules), (slope * tangents[0]).sum((0, 2))


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
    """The states of targets, and their logarithms of probabilities.

    Attributes:
        log_probs: As given: [T, n, classes].
        classes: The class of each state, and the number of classes beyond a target: [n, 2 S + 1].
        emitted: What each state emits at each time: [T, n, 2 S + 1].
        skips: Whether a state may follow the one two before: [n, 2 S + 1].
        last: The last time of each input: [n].
        ends: Whether a state is one of the last two of its target, none of which is here if that
            is longer than S: [n, 2 S + 1].
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
        state = jnp.arange(2 * longest + 1, dtype=jnp.int32)
        end = 2 * target_lengths[:, None]
        classes = jnp.where(state <= end, classes, rules.blank)
        read = jnp.broadcast_to(classes, (log_probs.shape[0], *classes.shape))
        two_before = jnp.pad(classes, ((0, 0), (2, 0)), mode="edge")[:, :-2]
        return cls(
            log_probs=log_probs,
            classes=jnp.where(state <= end, classes, count),
            emitted=jnp.take_along_axis(log_probs, read, 2, mode="fill"),
            skips=(state >= 2) & (classes != two_before),
            last=input_lengths - 1,
            ends=(state <= end) & (state >= end - 1),
            lengths=target_lengths,
        )

    def forward(self, *, keep: bool) -> tuple[jax.Array, jax.Array | None]:
        """Each target's loss, [n], and if asked for the alphas, [T, n, 2 S + 1]."""
        state = jnp.arange(self.classes.shape[1], dtype=jnp.int32)

        def step(before: jax.Array, now: Any) -> Any:
            emitted, time = now
            after = _sum_of_logs(before, _moved(before, 1), _gated(_moved(before, 2), self.skips))
            alpha = jnp.where(time == 0, jnp.where(state < 2, 0, -jnp.inf), after) + emitted
            # An input that has ended stays as it was.
            alpha = jnp.where((time <= self.last)[:, None], alpha, before)
            return alpha, alpha if keep else None

        # Before the first time only the first blank has a probability, and only of no target.
        none = jnp.where(state == 0, 0, -jnp.inf).astype(self.emitted.dtype)
        none = vary_like(jnp.broadcast_to(none, self.classes.shape), self.emitted, self.last)
        times = jnp.arange(self.emitted.shape[0], dtype=jnp.int32)
        final, alphas = jax.lax.scan(step, none, (self.emitted, times))
        ends = jnp.where(self.ends, final, -jnp.inf)
        greatest = ends.max(1, keepdims=True)
        base = jnp.where(jnp.isneginf(greatest), 0, greatest)
        likelihood = jnp.log(jnp.exp(ends - base).sum(1)) + base[:, 0]
        known = (self.lengths >= 0) & (self.last >= -1)
        return jnp.where(known, -likelihood, jnp.nan), alphas

    def posteriors(self, loss: jax.Array, alphas: jax.Array) -> jax.Array:
        """The probability of each state at each time, given the target: [T, n, 2 S + 1]."""

        def step(after: jax.Array, now: Any) -> Any:
            emitted, alpha, time = now
            skipped = _moved(_gated(after, self.skips), -2)
            beta = _sum_of_logs(after, _moved(after, -1), skipped)
            beta = jnp.where((time == self.last)[:, None], last, beta)
            beta = jnp.where((time <= self.last)[:, None], beta, -jnp.inf)
            return beta + emitted, jnp.exp(alpha + beta + loss[:, None])

        last = jnp.where(self.ends, 0, -jnp.inf).astype(loss.dtype)
        none = vary_like(jnp.full_like(alphas[0], -jnp.inf), alphas, self.last)
        times = jnp.arange(self.emitted.shape[0], dtype=jnp.int32)
        given = (self.emitted, alphas, times)
        found: jax.Array = jax.lax.scan(step, none, given, reverse=True)[1]
        return found


def _gradient(states: _States, loss: jax.Array, alphas: Any, rules: Rules) -> jax.Array:
    """By ``log_probs``, as PyTorch has it.

    It is not quite the derivative: with the exponentials of ``log_probs`` added it is that by the
    logits, and ``log_softmax`` passes it on unchanged. A class's states add up in panel order,
    from the first of the target to the last.
    """
    times, n, count = states.log_probs.shape
    posteriors = states.posteriors(loss, alphas)
    added = scatter_accumulate(
        jnp.zeros((n, count, times), loss.dtype),
        states.classes[:, :, None],
        jnp.transpose(posteriors, (1, 2, 0)),
        decision=rules.pullback,
    )
    slope = jnp.exp(states.log_probs) - jnp.transpose(added, (2, 0, 1))
    infinite = jnp.isposinf(loss)[:, None]
    slope = jnp.where(infinite, 0 if rules.zero_infinity else jnp.nan, slope)
    time = jnp.arange(times, dtype=jnp.int32)[:, None, None]
    return jnp.where(time <= states.last[:, None], slope, 0)


def _moved(states: jax.Array, by: int) -> jax.Array:
    """Each state's value ``by`` states on, and no probability where there was none."""
    nothing = jnp.array(-jnp.inf, states.dtype)
    moved: jax.Array = jax.lax.pad(states, nothing, ((0, 0, 0), (by, -by, 0)))
    return moved


def _gated(states: jax.Array, open_: jax.Array) -> jax.Array:
    return jnp.where(open_, states, -jnp.inf)


def _sum_of_logs(*terms: jax.Array) -> jax.Array:
    """The logarithm of the sum of the terms' exponentials."""
    greatest = functools.reduce(jnp.maximum, terms)
    base = jnp.where(jnp.isneginf(greatest), 0, greatest)
    return jnp.log(functools.reduce(jnp.add, (jnp.exp(term - base) for term in terms))) + base
