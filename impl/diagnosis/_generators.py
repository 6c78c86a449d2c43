"""Watches generators of random numbers: which have no seed, and who uses the global ones.

A generator of NumPy without a seed asks ``numpy.random.bit_generator.randbits`` for one, and one of
Python asks its method ``seed``. So only these functions are replaced while a program is watched,
and the classes stay as they are, except ``RandomState``, which asks for a seed even if it then
takes another one. The functions of ``random`` and ``numpy.random`` are methods of a global
generator: each is wrapped, and reports a draw that no seed came before. For ::

    rng = np.random.default_rng()    # train.py:6
    random.shuffle(files)            # train.py:7

``Watch.made`` has ``Made("numpy.random", "train.py:6")`` once, and ``Watch.states["random"]`` has
the ``unseeded_use`` "train.py:7".
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from impl import random as impl_random
from impl._reading import source

# The functions of a module are methods of its global generator.
_GLOBAL_OF_NUMPY: Any = np.random.rand.__self__  # type: ignore[attr-defined]
_GLOBAL_OF_PYTHON: Any = random.random.__self__  # type: ignore[attr-defined]
_SEEDING = {"seed", "setstate", "set_state", "getstate", "get_state"}
_OWN = (str(Path(np.__file__).parent), random.__file__, __file__)


@dataclasses.dataclass(frozen=True)
class Made:
    """A generator that was made without a seed, at a user's line, or a library's."""

    kind: str
    line: str


@dataclasses.dataclass
class Global:
    """The knowledge of a global generator.

    Attributes:
        seeded: Whether its latest seed or state was chosen; False before there is one.
        unseeded_use: The line of the first draw that no seed came before; None if none is known.
        changed: Whether its state is another one at the end, and no seed came before.
    """

    seeded: bool = False
    unseeded_use: str | None = None
    changed: bool = False


class Watch:
    """The generators that a program makes and uses.

    Attributes:
        made: The generators that were made without a seed, and the number of each.
        states: The global generators, by the name of their module.
        before: The state of each after the last use that does not count, such as of a library
            while it is imported.
        unseeded_draw: The line of the first draw from ``impl.default_generator`` before it had a
            seed; None if there was none.
    """

    def __init__(self) -> None:
        self.made: Counter[Made] = Counter()
        self.states = {"random": Global(), "numpy.random": Global()}
        self.before = _states()
        self.unseeded_draw: str | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextlib.contextmanager
    def paused(self, paused: bool) -> Iterator[None]:
        """Notes no generator that this thread makes inside, if ``paused``."""
        self._thread.paused = paused
        try:
            yield
        finally:
            self._thread.paused = False

    def make(self, kind: str) -> None:
        """Notes that a generator is made without a seed, by the code that runs now."""
        line = None if getattr(self._thread, "paused", False) else _line()
        if line is not None:
            with self._lock:
                self.made[Made(kind, line)] += 1

    def seed(self, name: str, chosen: bool) -> None:
        """Notes that a global generator gets a seed or a state."""
        self.states[name].seeded = chosen

    def use(self, name: str) -> None:
        """Notes a draw from a global generator, which has just been made."""
        state = self.states[name]
        if state.seeded or state.unseeded_use is not None:
            return
        state.unseeded_use = _line()
        if state.unseeded_use is None:
            self.before[name] = _states()[name]

    def draw(self, generator: impl_random.Generator, *_: Any) -> None:
        """Notes a draw from a generator of impl, which is about to be made."""
        if generator is impl_random.default_generator and not generator.seeded:
            lines = source.caller()
            self.unseeded_draw = self.unseeded_draw or lines.user or lines.library or "The program"


def _line() -> str | None:
    """Returns the line that uses a generator; None if the use does not count.

    Python's own modules name files with generators, and libraries name objects while they are
    imported. Neither has an effect on results.
    """
    files = [file for file, _, _ in source.running() if not file.startswith(_OWN)]
    kinds = [source.kind_of(file) for file in files]
    if not kinds or kinds[0] not in ("user", "library"):
        return None
    before_user = itertools.takewhile(
        lambda entry: entry[1] != "user", zip(files, kinds, strict=True)
    )
    if any(file.startswith("<frozen importlib") for file, _ in before_user):
        return None
    lines = source.caller()
    return lines.user or lines.library


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Watches all generators of random numbers of this process that are made or used inside."""
    watch = Watch()
    with contextlib.ExitStack() as patches:
        for name in random.__all__:
            _wrap(patches, watch, random, name, _GLOBAL_OF_PYTHON)
        for name in dir(np.random):
            _wrap(patches, watch, np.random, name, _GLOBAL_OF_NUMPY)
        _patch(patches, np.random, "RandomState", _told_of_random_state(watch))
        _patch(patches, random.Random, "seed", _told_of_seed(watch, random.Random.seed))
        draw = impl_random.Generator._draw  # noqa: SLF001  # The draws of all methods.
        _patch(patches, impl_random.Generator, "_draw", _first(watch.draw, draw))
        bits = np.random.bit_generator
        told = _first(lambda *_: watch.make("numpy.random"), bits.randbits)  # type: ignore[attr-defined]
        _patch(patches, bits, "randbits", told)
        try:
            yield watch
        finally:
            for name, state in _states().items():
                known = watch.states[name]
                known.changed = not known.seeded and state != watch.before[name]


def _states() -> dict[str, Any]:
    of_numpy: Any = np.random.get_state(legacy=True)  # noqa: NPY002  # The global one is watched.
    return {"random": random.getstate(), "numpy.random": (of_numpy[1].tobytes(), *of_numpy[2:])}


def _patch(patches: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    patches.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _wrap(patches: contextlib.ExitStack, watch: Watch, module: Any, name: str, owner: Any) -> None:
    """Replaces a function of a global generator by one that reports its calls."""
    function = getattr(module, name)
    if getattr(function, "__self__", None) is not owner and name != "seed":
        return
    kind = module.__name__
    if name not in _SEEDING:

        def told(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            watch.use(kind)
            return result

        functools.update_wrapper(told, function)
    elif name == "seed":

        def tell(*args: Any, **kwargs: Any) -> None:
            watch.seed(kind, any(value is not None for value in (*args, *kwargs.values())))

        told = _first(tell, function)
    elif name in ("setstate", "set_state"):
        told = _first(lambda *_, **__: watch.seed(kind, True), function)
    else:
        return
    told.__module__, told.__qualname__ = kind, name  # As pickles name it.
    _patch(patches, module, name, told)


def _first(tell: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that tells of the arguments of a call before the call."""

    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        tell(*args, **kwargs)
        return function(*args, **kwargs)

    return told


def _told_of_seed(watch: Watch, seed: Callable[..., None]) -> Callable[..., None]:
    def tell(_: random.Random, a: Any = None, *__: Any, **___: Any) -> None:
        if a is None:
            watch.make("random")

    return _first(tell, seed)


class _SameInstances(type):
    """The type of a class that counts the instances of its base as its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__base__ or object)


def _told_of_random_state(watch: Watch) -> type:
    """Returns a class that reports a seed from the system only if no other seed was passed."""
    base: Any = np.random.RandomState

    class RandomState(base, metaclass=_SameInstances):  # type: ignore[misc]
        __doc__ = base.__doc__

        def __init__(self, seed: Any = None) -> None:
            with watch.paused(seed is not None):
                super().__init__(seed)

    RandomState.__module__, RandomState.__qualname__ = "numpy.random", "RandomState"
    return RandomState
