"""Seeds and generators: what stands under ``torch.random`` in PyTorch.

A generator is a seed and a count of what it has handed out. Draw number n is Threefry-2x32 of n
under the seed, all 64 bits of both, so a key is the same on every device, in every process, and
under every setting and release of JAX. What ``jax.random`` makes of a key is JAX's matter:
``jax_threefry_partitionable``, for one, changes it.

A forked child starts with the generators as they were and so draws the same as its parent does,
until it seeds them anew, as workers of a data loader do.

Attributes:
    default_generator (Generator): The generator that ``manual_seed`` seeds. Until then its seed
        is another one in each process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
import random as _python_random
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from impl._core.threefry import threefry2x32, words

#: The seed of a ``Generator()``, as in PyTorch.
DEFAULT_SEED = 67280421310721

_FORMAT = 1  # the first word of a state
_SIZE = 5
_COUNTS = 1 << 64

_Drawn = TypeVar("_Drawn")

# One for all generators, and re-entrant: a handler of a signal may save their states. It is held
# across a fork, for a child whose parent had it in another thread would never get it.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    seed: int
    count: int = 0
    chosen: bool = True  # False where the seed came from the operating system


class Generator:
    """A stream of keys for ``jax.random``.

    Two generators with one seed hand out the same keys in the same order; other seeds give other
    streams. A generator may be shared by threads: each draw is handed out once. It can be pickled
    and copied, with its state.

    Source: ``torch.Generator``. Differences: the seed may be given at once, and there is no device,
    since keys are the same on all.

    Args:
        seed: As ``manual_seed`` takes it; None is 67280421310721, as in PyTorch.
        device: None. The argument is here to say to those used to it that there is none.

    Raises:
        TypeError: A device is given.
        RuntimeError: ``seed`` is not an integer.
        ValueError: ``seed`` is out of range.
    """

    def __init__(self, seed: int | None = None, *, device: object = None) -> None:
        if device is not None or isinstance(seed, str):
            given = seed if device is None else device
            raise TypeError(
                f"Generator(): got the device {given!r}, but a generator has none: its keys are "
                "the same on every device. Leave it out; the argument is the seed, an integer"
            )
        self._state = _State(DEFAULT_SEED if seed is None else _checked("Generator", seed))

    def manual_seed(self, seed: int) -> Generator:
        """Seeds the generator: its draws begin anew.

        Args:
            seed: An integer from -2**63 to 2**64 - 1. A negative one stands for ``2**64 + seed``
                (as in PyTorch's code; its documentation has another formula).

        Returns:
            The generator itself.

        Raises:
            RuntimeError: ``seed`` is not an integer (PyTorch's choice of exception).
            ValueError: ``seed`` is out of range.
        """
        self._state = _State(_checked("manual_seed", seed))
        return self

    def seed(self) -> int:
        """Seeds the generator with 64 bits from the operating system, and returns them.

        Each call gives another seed; ``manual_seed`` with what it returned reproduces the draws.
        """
        state = _State(secrets.randbits(64), chosen=False)
        self._state = state
        return state.seed

    def initial_seed(self) -> int:
        """The seed that the draws began with, from 0 to 2**64 - 1."""
        return self._state.seed

    @property
    def seeded(self) -> bool:
        """Whether the seed was chosen; False where it came from the operating system."""
        return self._state.chosen

    def get_state(self) -> npt.NDArray[np.uint32]:
        """The state, to be kept with a checkpoint and given to ``set_state``.

        Returns:
            uint32 [5]: the number 1 (of this format), then the high and the low word of the seed
            and of the number of draws. The words survive ``numpy.save`` and a stay in a
            ``jax.Array``, with x64 on or off.
        """
        state = self._state
        return np.array([_FORMAT, *words(state.seed), *words(state.count)], np.uint32)

    def set_state(self, new_state: npt.ArrayLike) -> Generator:
        """Goes on from a state that ``get_state`` returned. One that is refused changes nothing.

        Args:
            new_state: uint32 [5], a NumPy or JAX array.

        Returns:
            The generator itself.

        Raises:
            TypeError: Not an array, or of another dtype.
            RuntimeError: Of another shape, or of another format.
        """
        format_, *numbers = _checked_state(new_state)
        if format_ != _FORMAT:
            raise RuntimeError(
                f"set_state(): argument 'new_state' has the format {format_}, but this release "
                f"reads the format {_FORMAT}; take a state that Generator.get_state() returned"
            )
        seed_high, seed_low, count_high, count_low = numbers
        self._state = _State(seed_high << 32 | seed_low, count_high << 32 | count_low)
        return self

    def key(self) -> jax.Array:
        """The next key.

        Returns:
            A typed key array [] of Threefry-2x32, be ``jax_default_prng_impl`` what it may. Its
            two words are Threefry-2x32 of the number of draws so far, under the seed. They are
            the same on every device: the guarantee is in the rows of kind ``random``.

        Raises:
            RuntimeError: In a function that JAX is tracing (``jax.jit``, ``jax.lax.scan`` and
                their kin), where one key would be drawn for all calls; nothing is drawn.
        """
        return self._draw(_wrapped)

    def draw_seed(self) -> int:
        """A number from 0 to 2**63 - 1 to seed something else with, drawn from the same stream.

        It does not use JAX, so it can be called in a forked process.
        """
        return self._draw(lambda drawn: drawn >> 1)

    def _draw(self, make: Callable[[int], _Drawn]) -> _Drawn:
        # Nothing is counted before `make` has succeeded, and JAX is not called under the lock.
        while True:
            state = self._state
            if state.count == _COUNTS - 1:
                raise RuntimeError("Generator: all of its 2**64 - 1 draws are used; seed it anew")
            drawn = make(threefry2x32(state.seed, state.count))
            with _lock:
                if self._state is state:  # otherwise another thread was faster
                    self._state = dataclasses.replace(state, count=state.count + 1)
                    return drawn

    def __repr__(self) -> str:
        state = self._state
        return f"<impl.Generator: seed {state.seed}, {state.count} drawn>"

    def __reduce__(self) -> tuple[Callable[..., Generator], tuple[type, int, int, bool]]:
        state = self._state
        return _restored, (type(self), state.seed, state.count, state.chosen)


def _restored(kind: type[Generator], seed: int, count: int, chosen: bool) -> Generator:
    generator = kind.__new__(kind)
    generator._state = _State(seed, count, chosen)  # noqa: SLF001  # of this module
    return generator


def _wrapped(drawn: int) -> jax.Array:
    # Put there in words: so a transfer guard lets it pass.
    data = jax.device_put(np.array(words(drawn), np.uint32))
    key: jax.Array = jax.random.wrap_key_data(data, impl="threefry2x32")
    if isinstance(key, jax.core.Tracer):
        raise RuntimeError(  # noqa: TRY004  # not the type of an argument
            "Generator.key(): drawn in a function that JAX is tracing (jax.jit, jax.lax.scan and "
            "their kin), where one key would stand for every call. Draw the key outside, and pass "
            "it to the function as an argument"
        )
    return key


def _checked(function: str, seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = None
    if number is None or isinstance(seed, bool):
        raise RuntimeError(f"{function} expected an integer seed, but got {type(seed).__name__}")
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(
            f"{function}(): argument 'seed' got {number}; it must be from -2**63 to 2**64 - 1"
        )
    return number % (1 << 64)


def _checked_state(new_state: Any) -> list[int]:
    is_array = isinstance(new_state, np.ndarray | jax.Array)
    if not is_array or isinstance(new_state, jax.core.Tracer) or new_state.dtype != np.uint32:
        got = f"an array of {new_state.dtype}" if is_array else type(new_state).__name__
        raise TypeError(
            f"set_state(): argument 'new_state' must be an array of uint32, but got {got}"
        )
    if new_state.shape != (_SIZE,):
        raise RuntimeError(
            f"set_state(): argument 'new_state' must have the shape [{_SIZE}], but got "
            f"{list(new_state.shape)}; take a state that Generator.get_state() returned"
        )
    return np.asarray(new_state).tolist()  # type: ignore[no-any-return]


_libraries_seed: int | None = None

default_generator = Generator()
default_generator.seed()  # As in PyTorch: who did not ask for one stream does not get one.


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator.

    Source: ``torch.manual_seed``. Difference: a number with a fraction is refused, not cut.

    Args:
        seed: From -2**63 to 2**64 - 1, or what ``int`` makes such a number of. A negative one
            stands for ``2**64 + seed``.

    Returns:
        The default generator.

    Raises:
        TypeError, ValueError: ``int`` takes no such argument.
        ValueError: ``seed`` has a fraction or is out of range.
    """
    number = int(seed)
    if isinstance(seed, float | np.floating) and number != seed:
        raise ValueError(
            f"manual_seed(): argument 'seed' got {seed}; give an integer, from -2**63 to 2**64 - 1"
        )
    return default_generator.manual_seed(number)


def seed() -> int:
    """Seeds the default generator from the operating system, and returns the seed.

    ``manual_seed`` with what it returned reproduces the draws. Source: ``torch.seed``.
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator, from 0 to 2**64 - 1. Source: ``torch.initial_seed``."""
    return default_generator.initial_seed()


def get_rng_state() -> npt.NDArray[np.uint32]:
    """The state of the default generator, as ``Generator.get_state`` gives it.

    Source: ``torch.get_rng_state``.
    """
    return default_generator.get_state()


def set_rng_state(new_state: npt.ArrayLike) -> None:
    """Sets the state of the default generator.

    Source: ``torch.set_rng_state``.

    Args:
        new_state: What ``get_rng_state`` returned.

    Raises:
        TypeError: Not an array, or of another dtype.
        RuntimeError: Of another shape, or of another format.
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[object] | None = None, enabled: bool = True) -> Iterator[None]:
    """A scope at whose end the default generator is as it was at its beginning.

    Also when an exception leaves it. The generator belongs to the whole process: what other
    threads draw meanwhile is drawn again afterwards. Source: ``torch.random.fork_rng``.

    Args:
        devices: Makes no difference, since one generator serves all devices.
        enabled: False to restore nothing.

    Yields:
        None.
    """
    del devices
    before = default_generator._state  # noqa: SLF001  # of this module
    try:
        yield
    finally:
        if enabled:
            default_generator._state = before  # noqa: SLF001  # of this module


def seed_everything(seed: int) -> np.random.Generator:
    """Seeds this package, Python's ``random`` and NumPy's global generator, each by one seed.

    ``random`` is seeded with the 64 bits of ``initial_seed()``, and NumPy's global generator, which
    takes no more, with the lower 32 of them. So from 0 to 2**32 - 1, both get ``seed`` itself.

    Args:
        seed: As ``manual_seed`` takes it.

    Returns:
        A new NumPy generator, ``numpy.random.default_rng(initial_seed())``: use it where you can,
        for NumPy's global one is shared with every library.

    Raises:
        TypeError, ValueError: As for ``manual_seed``; nothing is seeded then.
    """
    number = manual_seed(seed).initial_seed()
    _python_random.seed(number)
    np.random.seed(number % (1 << 32))  # noqa: NPY002  # what is asked for
    global _libraries_seed  # noqa: PLW0603  # a record for the doctor: neither library has one
    _libraries_seed = number
    return np.random.default_rng(number)


def libraries_seed() -> int | None:
    """The seed that ``seed_everything`` last gave ``random`` and NumPy; None if it never did."""
    return _libraries_seed
