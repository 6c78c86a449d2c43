"""The position of an iterator in an epoch, and the document that keeps it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from impl.utils.data._seeding import GeneratorStates

_FORMAT = 1


@dataclasses.dataclass
class Position:
    """An epoch, and the part of it that is done.

    Attributes:
        base_seed: The seed of the epoch, from which the seeds of the workers are made.
        order_seed: The seed of the order, or None if the loader does not shuffle.
        plan: The indices of each batch, from batch ``first`` on.
        first: The number of the first batch in ``plan``.
        done: The number of batches of the epoch that have been handed out.
        finished: Whether the iterator has raised StopIteration.
        reseeded: Whether the workers had begun another epoch before this one.
        num_workers: The number of workers that handed the batches out.
        rng: For each worker, the states of its generators after its last batch so far.
    """

    base_seed: int
    order_seed: int | None
    plan: Sequence[Any]
    first: int = 0
    done: int = 0
    finished: bool = False
    reseeded: bool = False
    num_workers: int = 0
    rng: dict[int, GeneratorStates] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of batches in the epoch."""
        return self.first + len(self.plan)

    def batch(self, number: int) -> Any:
        """Returns the indices of a batch."""
        return self.plan[number - self.first]

    def shard(self, worker_id: int) -> list[Any]:
        """Returns the batches that a worker still has to make: every ``num_workers``-th."""
        first = self.done + (worker_id - self.done) % self.num_workers
        return [self.batch(number) for number in range(first, self.total, self.num_workers)]

    def state(self, *, with_plan: bool) -> dict[str, Any] | None:
        """Returns the position in plain values, or None at the end of an epoch.

        Args:
            with_plan: Whether to keep the batches that are left; ``order_seed`` does not give them
                if the user's own sampler made them.
        """
        if self.finished:
            return None
        return {
            "base_seed": self.base_seed,
            "order_seed": self.order_seed,
            "batches": [self.batch(number) for number in range(self.done, self.total)]
            if with_plan
            else None,
            "done": self.done,
            "reseeded": self.reseeded,
            "num_workers": self.num_workers,
            "rng": {
                str(worker_id): _plain(states) for worker_id, states in sorted(self.rng.items())
            },
        }


class Slices(Sequence[Any]):
    """The batches of an order: ``size`` indices each, the last one perhaps fewer.

    Args:
        order: The indices, an array or a range.
        size: The number of indices in a batch; None for single indices.
        count: The number of batches.
    """

    def __init__(self, order: Any, size: int | None, count: int) -> None:
        self._order, self._size, self._count = order, size, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if self._size is None:
            return int(self._order[number])
        # An array, since it is sent to a worker: a list of integers takes many times its memory.
        return np.asarray(self._order[number * self._size : (number + 1) * self._size])


def resumed(state: dict[str, Any], plan: Sequence[Any] | None) -> Position:
    """Returns the position that ``Position.state`` described.

    Args:
        state: The value that it returned.
        plan: All batches of the epoch; None if the state has the batches that are left.

    Raises:
        ValueError: The position is outside the epoch.
    """
    position = Position(
        base_seed=state["base_seed"],
        order_seed=state["order_seed"],
        plan=state["batches"] if plan is None else plan,
        first=state["done"] if plan is None else 0,
        done=state["done"],
        reseeded=state["reseeded"],
        num_workers=state["num_workers"],
        rng={int(worker_id): _states(plain) for worker_id, plain in state["rng"].items()},
    )
    if not 0 <= position.done <= position.total:
        raise ValueError(f"{position.done} batches are done of {position.total}")
    return position


def document(
    identity: dict[str, Any], epoch: dict[str, Any] | None, generator: list[int], sampler: Any
) -> dict[str, Any]:
    """Returns the state of a loader.

    Args:
        identity: The properties of the loader that a loader must share to load the state.
        epoch: The position in an epoch, or None between two epochs.
        generator: The state of the generator.
        sampler: The state of the sampler, or None if it has none.
    """
    return {
        "format": _FORMAT,
        "loader": identity,
        "epoch": epoch,
        "generator": generator,
        "sampler": sampler,
    }


def check(state: Any, identity: dict[str, Any]) -> None:
    """Checks that a value is the state of a loader like this one.

    Args:
        state: The value.
        identity: The properties of this loader that the state has to share.

    Raises:
        TypeError: Not a dict.
        ValueError: Not a loader's state, or the state of another loader; the message names the
            differences.
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
    differences = [
        f"{name} is {state['loader'].get(name)!r} in the state, {value!r} here"
        for name, value in identity.items()
        if state["loader"].get(name) != value
    ]
    if differences:
        raise ValueError(
            "load_state_dict(): the state belongs to another loader, so the rest of its epoch "
            f"cannot be had here: {'; '.join(differences)}. Nothing was restored"
        )


def _plain(states: GeneratorStates) -> list[Any]:
    (version, words, gauss), (name, keys, *rest), impl_state = states
    return [
        [version, list(words), gauss],
        [name, np.asarray(keys).tolist(), *rest],
        impl_state.tolist(),
    ]


def _states(plain: list[Any]) -> GeneratorStates:
    (version, words, gauss), (name, keys, *rest), impl_words = plain
    python_state = (version, tuple(words), gauss)
    return python_state, (name, np.array(keys, np.uint32), *rest), np.array(impl_words, np.uint32)
