"""Other work on the device, which changes the addresses and the timing of the code under test.

An op that is not deterministic may give the same bits on an idle device each time. It is more
likely to vary while other programs, copies and allocations are in flight.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from conformance.adapters.base import Adapter
from conformance.hardware import cuda_streams

#: The sizes of temporary float32 arrays, in elements: 4 kB to 8 MB.
ARRAY_SIZES = (1_000, 9_000, 70_000, 400_000, 2_000_000)
#: The greatest number of bytes that the temporary arrays take.
MEMORY_LIMIT = 128 * 2**20
#: The seconds in which the work has to begin.
START_TIMEOUT = 60.0

#: A function that does one piece of work. At most this piece is in flight when it returns.
Step = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class WorkKind:
    """A kind of work.

    Attributes:
        name: The words for it in a report.
        begin: A function that prepares the work, in the thread that does it. The step that it
            returns is called again and again.
    """

    name: str
    begin: Callable[[], Step]


def begin_array_work() -> Step:
    """Prepares copies and programs on arrays of changing sizes, some of which live for a while."""
    rng = np.random.default_rng(0)
    program = jax.jit(lambda x: jnp.flip(x) * 2 + 1)
    host_arrays = [np.ones(size, np.float32) for size in ARRAY_SIZES]
    for array in host_arrays:
        jax.block_until_ready(program(jax.device_put(array)))
    live: list[jax.Array] = []

    def step() -> None:
        result = program(jax.device_put(host_arrays[rng.integers(len(host_arrays))]))
        live.append(jax.block_until_ready(result))
        while sum(array.nbytes for array in live) > MEMORY_LIMIT or (live and rng.random() < 0.4):
            live.pop(rng.integers(len(live)))
        if live and rng.random() < 0.2:
            np.asarray(live[0][:1])

    return step


def work_kinds(implementation: Adapter) -> list[WorkKind]:
    """Returns the kinds of work that run on the device on which an implementation computes."""
    kinds = []
    uses_jax = implementation.can_lower
    if uses_jax:
        kinds.append(WorkKind("allocations and copies of changing sizes", begin_array_work))
    if implementation.devices()[0] in cuda_streams.DEVICES:
        ordinal = int(jax.devices()[0].local_hardware_id or 0) if uses_jax else 0
        name = "fills and copies on two other streams"
        kinds.append(WorkKind(name, cuda_streams.stream_work(ordinal)))
    return kinds


class BackgroundWork:
    """Threads that work while a scope is open, and wait otherwise.

    A kind of work that fails is given up. ``str`` names the kinds, and why one was given up.

    Args:
        kinds: The kinds of work, one thread each.
    """

    def __init__(self, kinds: Sequence[WorkKind]) -> None:
        self._kinds = tuple(kinds)
        self._changed = threading.Condition()
        self._open = False
        self._over = False
        self._steps = dict.fromkeys((kind.name for kind in kinds), 0)
        self._errors: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._work, args=(kind,), daemon=True) for kind in kinds
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(START_TIMEOUT)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Opens a scope in which the threads work. Every kind has done a step on entry.

        Raises:
            TimeoutError: A kind of work did not begin in time.
        """
        with self._changed:
            before = dict(self._steps)
            self._open = True
            self._changed.notify_all()
            has_begun = self._changed.wait_for(lambda: self._all_begun(before), START_TIMEOUT)
        try:
            if not has_begun:
                raise TimeoutError(
                    f"no other work began on the device within {START_TIMEOUT:.0f} s"
                )
            yield
        finally:
            with self._changed:
                self._open = False

    def _all_begun(self, before: dict[str, int]) -> bool:
        return all(n > before[name] or name in self._errors for name, n in self._steps.items())

    def __str__(self) -> str:
        names = [kind.name for kind in self._kinds if kind.name not in self._errors]
        lost = [f"without {name} ({error})" for name, error in self._errors.items()]
        return "; ".join([" and ".join(names) or "nothing", *lost])

    def _work(self, kind: WorkKind) -> None:
        try:
            step = kind.begin()
            while self._wait_for_scope():
                step()
                with self._changed:
                    self._steps[kind.name] += 1
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # the run continues, and the report names it
            with self._changed:
                self._errors[kind.name] = f"{type(error).__name__}: {error}"[:150]
                self._changed.notify_all()

    def _wait_for_scope(self) -> bool:
        """Waits until a scope is open. Returns False if there will be no more scopes."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or self._over)
            return not self._over
