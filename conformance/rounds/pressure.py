"""Other work on the device, so that the addresses and the timing of what is tried differ."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from conformance.adapters.base import Adapter as Implementation
from conformance.rounds import streams

#: Elements of float32 in an array that is made in passing: 4 kB to 8 MB.
SIZES = (1_000, 9_000, 70_000, 400_000, 2_000_000)
#: Bytes that such arrays take at most.
LIMIT = 128 * 2**20
#: Seconds that a scope waits for the work to begin.
PATIENCE = 60.0

#: Does a piece of work, with no more than that in flight when it returns.
Step = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Work:
    """A kind of work.

    Attributes:
        name: What it is, in a few words.
        begin: Gets ready, in the thread that does it; what it returns is called again and again.
    """

    name: str
    begin: Callable[[], Step]


def churn() -> Step:
    """Copies to the device and back, and programs, on arrays of changing sizes kept for a while."""
    rng = np.random.default_rng(0)
    program = jax.jit(lambda x: jnp.flip(x) * 2 + 1)
    hosts = [np.ones(size, np.float32) for size in SIZES]
    for host in hosts:
        jax.block_until_ready(program(jax.device_put(host)))
    kept: list[jax.Array] = []

    def step() -> None:
        made = program(jax.device_put(hosts[rng.integers(len(hosts))]))
        kept.append(jax.block_until_ready(made))
        while sum(array.nbytes for array in kept) > LIMIT or (kept and rng.random() < 0.4):
            kept.pop(rng.integers(len(kept)))
        if kept and rng.random() < 0.2:
            np.asarray(kept[0][:1])

    return step


def kinds(tried: Implementation) -> list[Work]:
    """What work there can be beside an implementation, on the device that it computes on."""
    found = []
    own = tried.can_lower  # then it computes where JAX does
    if own:
        found.append(Work("allocations and copies of changing sizes", churn))
    if tried.devices()[0] == "cuda":
        ordinal = int(jax.devices()[0].local_hardware_id or 0) if own else 0
        found.append(Work("fills and copies on two other streams", streams.busy(ordinal)))
    return found


class Pressure:
    """Threads that work while a scope is open, and rest otherwise.

    A kind of work that fails is given up; ``done`` no longer names it then.
    """

    def __init__(self, kinds: Sequence[Work]) -> None:
        self._kinds = tuple(kinds)
        self._changed = threading.Condition()
        self._open = False
        self._over = False
        self._steps = dict.fromkeys((kind.name for kind in kinds), 0)
        self._lost: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(kind,), daemon=True) for kind in kinds
        ]

    def __enter__(self) -> Self:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends them."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(PATIENCE)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Inside, work of every kind is in flight or about to be; it has begun on entry."""
        with self._changed:
            before = dict(self._steps)
            self._open = True
            self._changed.notify_all()
            begun = self._changed.wait_for(lambda: self._begun(before), PATIENCE)
        try:
            if not begun:
                raise TimeoutError(f"no other work began on the device within {PATIENCE:.0f} s")
            yield
        finally:
            with self._changed:
                self._open = False

    def _begun(self, before: dict[str, int]) -> bool:
        return all(n > before[name] or name in self._lost for name, n in self._steps.items())

    def __str__(self) -> str:
        """What there was beside, and what was given up."""
        there = [kind.name for kind in self._kinds if kind.name not in self._lost]
        lost = [f"without {name} ({why})" for name, why in self._lost.items()]
        return "; ".join([" and ".join(there) or "nothing", *lost])

    def _work(self, kind: Work) -> None:
        try:
            step = kind.begin()
            while self._may_go_on():
                step()
                with self._changed:
                    self._steps[kind.name] += 1
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # the run goes on without, and says so
            with self._changed:
                self._lost[kind.name] = f"{type(error).__name__}: {error}"[:150]
                self._changed.notify_all()

    def _may_go_on(self) -> bool:
        """Waits for a scope to be open; False where there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or self._over)
            return not self._over
