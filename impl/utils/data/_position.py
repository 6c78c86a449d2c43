"""Where in an epoch an iterator is, and how that is written down."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

_FORMAT = 1


@dataclasses.dataclass
class Position:
    """An epoch, and how far it is done.

    Attributes:
        base_seed: The seed of the epoch, from which the workers' are made.
        order_seed: The seed of its order, where the loader shuffles.
        plan: The indices of each batch, those before ``first`` left out.
        first: The number of the first batch in ``plan``.
        done: How many batches of the epoch have been handed out.
        finished: Whether the iterator has said that the epoch is over.
        reseeded: Whether the epoch was begun by workers that had begun another before.
        num_workers: How many workers handed the batches out.
        rng: The states of the generators of each worker after its last batch so far.
    """

    base_seed: int
    order_seed: int | None
    plan: Sequence[Any]
    first: int = 0
    done: int = 0
    finished: bool = False
    reseeded: bool = False
    num_workers: int = 0
    rng: dict[int, Any] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many batches the epoch has."""
        return self.first + len(self.plan)

    def batch(self, number: int) -> Any:
        """The indices of a batch."""
        return self.plan[number - self.first]

    def shard(self, worker_id: int) -> list[Any]:
        """The batches that a worker still has to do: every ``num_workers``-th, from its first."""
        first = self.done + (worker_id - self.done) % self.num_workers
        return [self.batch(each) for each in range(first, self.total, self.num_workers)]

    def state(self, *, with_plan: bool) -> dict[str, Any] | None:
        """The position in plain values, or None at the end of an epoch."""
        if self.finished:
            return None
        return {
            "base_seed": self.base_seed,
            "order_seed": self.order_seed,
            "batches": [self.batch(each) for each in range(self.done, self.total)]
            if with_plan
            else None,
            "done": self.done,
            "reseeded": self.reseeded,
            "num_workers": self.num_workers,
            "rng": {str(each): _plain(states) for each, states in sorted(self.rng.items())},
        }


class Slices(Sequence[Any]):
    """The batches of an order: ``size`` indices each, the last one perhaps fewer.

    Args:
        order: The indices, an array or a range.
        size: How many make a batch; None for single indices.
        count: How many batches there are.
    """

    def __init__(self, order: Any, size: int | None, count: int) -> None:
        self._order, self._size, self._count = order, size, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if self._size is None:
            return int(self._order[number])
        # An array: lists of integers take many times its memory, and the way to a worker is long.
        return np.asarray(self._order[number * self._size : (number + 1) * self._size])


def resumed(state: dict[str, Any], plan: Sequence[Any] | None) -> Position:
    """The position that ``Position.state`` wrote down.

    Args:
        state: What it returned.
        plan: All batches of the epoch, unless the state has those that are left.

    Raises:
        ValueError: The position is outside the epoch.
    """
    at = Position(
        base_seed=state["base_seed"],
        order_seed=state["order_seed"],
        plan=state["batches"] if plan is None else plan,
        first=state["done"] if plan is None else 0,
        done=state["done"],
        reseeded=state["reseeded"],
        num_workers=state["num_workers"],
        rng={int(each): _states(plain) for each, plain in state["rng"].items()},
    )
    if not 0 <= at.done <= at.total:
        raise ValueError(f"{at.done} batches are done of {at.total}")
    return at


def document(
    about: dict[str, Any], epoch: dict[str, Any] | None, generator: list[int], sampler: Any
) -> dict[str, Any]:
    """A loader's state.

    Args:
        about: What of the loader has to be the same where the state is loaded.
        epoch: The position in an epoch, if there is one.
        generator: The state of the generator.
        sampler: The state of the sampler, if it has one.
    """
    return {
        "format": _FORMAT,
        "loader": about,
        "epoch": epoch,
        "generator": generator,
        "sampler": sampler,
    }


def check(state: Any, about: dict[str, Any]) -> None:
    """Refuses what is not a state of a loader like this one.

    Args:
        state: What was given.
        about: What of this loader has to be the same.

    Raises:
        TypeError: Not a dict.
        ValueError: Not a loader's state, or another loader's; the message says what differs.
    """
    if not isinstance(state, dict):
        raise TypeError(
            "load_state_dict(): argument 'state_dict' must be a dict that state_dict() returned, "
            f"but got {type(state).__name__}"
        )
    if set(state) != set(document({}, None, [], None)) or state["format"] != _FORMAT:
        raise ValueError(
            "load_state_dict(): argument 'state_dict' is not what DataLoader.state_dict() of this "
            f"release returns: it has the format {state.get('format')!r} and the keys "
            f"{sorted(map(str, state))}; nothing was restored"
        )
    differ = [
        f"{name} is {state['loader'].get(name)!r} in the state, {mine!r} here"
        for name, mine in about.items()
        if state["loader"].get(name) != mine
    ]
    if differ:
        raise ValueError(
            "load_state_dict(): the state is that of another loader, so the rest of its epoch "
            f"cannot be had here: {'; '.join(differ)}. Nothing was restored"
        )


def _plain(states: Any) -> list[Any]:
    (version, words, gauss), (name, keys, *rest), own = states
    return [[version, list(words), gauss], [name, np.asarray(keys).tolist(), *rest], own.tolist()]


def _states(plain: list[Any]) -> Any:
    (version, words, gauss), (name, keys, *rest), own = plain
    python = (version, tuple(words), gauss)
    return python, (name, np.array(keys, np.uint32), *rest), np.array(own, np.uint32)
