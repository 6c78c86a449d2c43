"""The comparison of two logs: the first step, tree and leaf whose bits differ.

A log has a digest for each tree of each step, and the digests of the leaves of a tree. The
comparison reads the digests of trees alone, until one differs. Then it compares the leaves of that
step. The text of two logs that differ from step 3 on is for example::

    first   a.jsonl
    second  b.jsonl
    first difference: step 3, tree 'params', leaf ['w']
      first   50090894a3d5b723  float32[3,4]
      second  d6a993dc67a44b70  float32[3,4]
      12 of 12 elements differ, by at most 1 ulp; the first is [0, 0]: 1.0 and 1.0000001
    3 of 5 steps that both have are equal
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from impl.digests._digest import NumpyArray
from impl.digests._log import LeafRecord, LogFile

#: The number of leaves that the text lists after the first.
_MORE = 5


@dataclasses.dataclass(frozen=True)
class Distance:
    """How far apart two arrays are.

    Attributes:
        elements: The number of elements of each array.
        differing: The number of elements whose bits differ.
        ulp: The largest distance of two elements: for floating-point numbers the number of steps
            from one to the other along all numbers of the dtype, 0 for 0.0 and -0.0; for integers
            their difference. None if the dtype has no such distance, or if each pair has a NaN.
        nan: The number of differing pairs with a NaN, which ``ulp`` leaves out.
        first: The index of the first element that differs.
        values: This element in both arrays.
        largest: The index of the element with the largest distance; None if ``ulp`` is None.
    """

    elements: int
    differing: int
    ulp: int | None
    nan: int
    first: tuple[int, ...]
    values: tuple[str, str]
    largest: tuple[int, ...] | None

    def text(self) -> str:
        """Returns the distance as a sentence."""
        index = ", ".join(map(str, self.first))
        words = f"{self.differing} of {self.elements} elements differ"
        if self.ulp is not None:
            words += f", by at most {self.ulp} ulp"
        if self.nan:
            words += f", {self.nan} of them NaN"
        return f"{words}; the first is [{index}]: {self.values[0]} and {self.values[1]}"


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first difference of two logs.

    Attributes:
        step: The number of the step.
        tree: The name of the tree.
        leaf: The path of the leaf; None if one log has no such tree at this step.
        types: The type of the leaf in each log, as ``float32[3,4]``; None for a log without it.
        digests: The first digits of the digest of the leaf in each log; None for one without it.
        distance: The distance of the values; None if a log did not keep them, or the types differ.
        others: The other leaves of the step that differ, as the name of the tree and the path.
    """

    step: int
    tree: str
    leaf: str | None
    types: tuple[str | None, str | None]
    digests: tuple[str | None, str | None]
    distance: Distance | None
    others: tuple[str, ...]

    def text(self) -> str:
        """Returns the difference as text."""
        if self.leaf is None:
            where = "first" if self.types[0] is None else "second"
            return f"step {self.step}: the tree {self.tree!r} is not in the {where} log"
        leaf = f"leaf {self.leaf}" if self.leaf else "its only leaf"
        lines = [f"step {self.step}, tree {self.tree!r}, {leaf}"]
        for name, type_, digest in zip(("first", "second"), self.types, self.digests, strict=True):
            lines.append(f"  {name:6}  " + (f"{digest}  {type_}" if digest else "has no such leaf"))
        if self.distance is not None:
            lines.append(f"  {self.distance.text()}")
        elif self.types[0] == self.types[1]:
            lines.append(
                f"  how far apart is unknown: DigestLog(path, keep=[{self.tree!r}]) keeps values"
            )
        if self.others:
            more = len(self.others) - _MORE
            shown = ", ".join(self.others[:_MORE]) + (f" and {more} more" if more > 0 else "")
            lines.append(f"  other leaves of this step that differ: {shown}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The comparison of two logs.

    Attributes:
        paths: The two files.
        steps: The number of steps that both logs have.
        equal_steps: The number of these in which every tree that was compared has equal bits.
        difference: The first difference; None if there is none.
        only: For each log, the steps that the other does not have.
        repeats: A sentence for each log that has two records of one step with other bits: a run
            that was resumed did not repeat itself.
        environment: Each part of the environment that differs, with both values.
        common: Whether steps and trees that only one log has are left out.
    """

    paths: tuple[str, str]
    steps: int
    equal_steps: int
    difference: Difference | None
    only: tuple[tuple[int, ...], tuple[int, ...]]
    repeats: tuple[str, ...]
    environment: dict[str, tuple[str, str]]
    common: bool

    @property
    def equal(self) -> bool:
        """True if both logs have the same steps with the same bits, and each repeats itself."""
        missing = not self.common and any(self.only)
        return self.difference is None and not self.repeats and not missing

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain data."""
        return {"equal": self.equal, **dataclasses.asdict(self)}

    def text(self) -> str:
        """Returns the comparison as text."""
        lines = [f"first   {self.paths[0]}", f"second  {self.paths[1]}"]
        lines += [f"{name} differs: {a} | {b}" for name, (a, b) in self.environment.items()]
        lines += self.repeats
        for name, steps in zip(("first", "second"), self.only, strict=True):
            if steps:
                lines.append(f"only in the {name} log: {_ranges(steps)}")
        if self.difference is not None:
            lines.append(f"first difference: {self.difference.text()}")
        lines.append(f"{self.equal_steps} of {self.steps} steps that both have are equal")
        return "\n".join(lines)


def compare(
    first: str | os.PathLike[str], second: str | os.PathLike[str], *, common: bool = False
) -> Comparison:
    """Compares two logs of digests.

    Of several records of a step in one log, the last one counts. A last line that is half-written
    is left out.

    Args:
        first: The file of a ``DigestLog``.
        second: The file of another.
        common: True to compare the steps and trees that both logs have, and no others. By default a
            step or a tree that one log does not have is a difference.

    Returns:
        The comparison. Its ``equal`` is True if no bit differs.

    Raises:
        ValueError: A file is not a log of digests or has a damaged line; or the logs have no tree
            of a step in common.
        OSError: A file cannot be read.
    """
    logs = LogFile(first), LogFile(second)
    for log in logs:
        if not log.environments:
            raise ValueError(f"{log.path!r} has no line yet")
    one, other = (log.steps for log in logs)
    steps = sorted(one.keys() & other.keys())
    if not any(one[step].keys() & other[step].keys() for step in steps):
        raise ValueError(
            f"the two logs have no tree of a step in common: {logs[0].path!r} has "
            f"{_contents(logs[0])}, {logs[1].path!r} has {_contents(logs[1])}"
        )
    differing = [step for step in steps if next(_trees(logs, (step, step), common), None)]
    leaves = list(differences(logs, (differing[0],) * 2, common)) if differing else []
    difference = None
    if differing and not leaves:
        raise ValueError(
            f"the trees of step {differing[0]} have other digests, and their leaves have not: a "
            f"line of {logs[0].path!r} or {logs[1].path!r} was changed"
        )
    if leaves:
        first_leaf, others = leaves[0], leaves[1:]
        named = tuple(f"{each.tree}{each.leaf or ''}" for each in others)
        difference = dataclasses.replace(first_leaf, others=named)
    return Comparison(
        (logs[0].path, logs[1].path),
        len(steps),
        len(steps) - len(differing),
        difference,
        (tuple(sorted(one.keys() - other.keys())), tuple(sorted(other.keys() - one.keys()))),
        tuple(sentence for log in logs for sentence in _repeats(log)),
        _environment(logs),
        common,
    )


def differences(
    logs: tuple[LogFile, LogFile], steps: tuple[int, int], common: bool = False
) -> Iterator[Difference]:
    """Yields the leaves that differ between a step of each log, in the order of the first log.

    The steps may be two, as ``doctor --twice`` compares calls of threads in any order.
    """
    for name in _trees(logs, steps, common):
        records = tuple(
            log.steps[step].get(name, []) for log, step in zip(logs, steps, strict=True)
        )
        if not all(records):
            present = ("" if records[0] else None, "" if records[1] else None)
            yield Difference(steps[0], name, None, present, (None, None), None, ())
            continue
        sides = [log.leaves(of_tree[-1], name) for log, of_tree in zip(logs, records, strict=True)]
        for path in dict.fromkeys(path for side in sides for path in side):
            one, other = (side.get(path, LeafRecord()) for side in sides)
            if one[:2] == other[:2]:
                continue
            apart = None
            if one.type and one.type == other.type and None not in (one.data, other.data):
                apart = distance(one.type, one.data or b"", other.data or b"")
            types, digests = (one.type, other.type), (one.digest, other.digest)
            yield Difference(steps[0], name, path, types, digests, apart, ())


def _trees(logs: tuple[LogFile, LogFile], steps: tuple[int, int], common: bool) -> Iterator[str]:
    """Yields the names of the trees that differ between a step of each log."""
    one, other = (log.steps[step] for log, step in zip(logs, steps, strict=True))
    for name in dict.fromkeys([*one, *other]):
        if name in one and name in other:
            if one[name][-1].digest != other[name][-1].digest:
                yield name
        elif not common:
            yield name


def _repeats(log: LogFile) -> Iterator[str]:
    for step in sorted(log.steps):
        for name, records in log.steps[step].items():
            before, last = records[0], records[-1]
            if any(record.digest != last.digest for record in records):
                yield (
                    f"{log.path} does not repeat itself: step {step}, tree {name!r} has other bits "
                    f"in line {before.line} than in line {last.line}"
                )
                return


def _environment(logs: tuple[LogFile, LogFile]) -> dict[str, tuple[str, str]]:
    """Returns the parts that differ; of several sessions of a log, each value once."""
    names = dict.fromkeys(name for log in logs for each in log.environments for name in each)
    words = {
        name: tuple(
            ", then ".join(dict.fromkeys(each.get(name, "unknown") for each in log.environments))
            for log in logs
        )
        for name in names
    }
    return {name: (a, b) for name, (a, b) in words.items() if a != b}


def _contents(log: LogFile) -> str:
    if not log.steps:
        return "no steps"
    trees = dict.fromkeys(name for trees in log.steps.values() for name in trees)
    return f"{_ranges(tuple(sorted(log.steps)))} with {', '.join(map(repr, trees))}"


def _ranges(steps: tuple[int, ...]) -> str:
    """Returns numbers of steps in words: the first, the last and how many."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    return f"{len(steps)} steps, {steps[0]} to {steps[-1]}"


def distance(type_: str, first: bytes, second: bytes) -> Distance | None:
    """Returns the distance of the bytes of two arrays of one type, such as ``float32[3,4]``.

    It is None for PRNG keys and other types.
    """
    name, _, sizes = type_.removesuffix("]").rpartition("[")
    shape = tuple(int(size) for size in sizes.split(",") if size)
    try:
        dtype = jnp.dtype(name)
    except TypeError:
        return None
    if dtype.kind in "iufc" and dtype.itemsize > 1:
        dtype = dtype.newbyteorder("<")
    one, other = (np.frombuffer(data, dtype).reshape(shape) for data in (first, second))
    return distance_of(one, other)


def distance_of(first: NumpyArray, second: NumpyArray) -> Distance | None:
    """Returns the distance of two arrays of one shape and dtype; None if they have equal bits."""
    size, shape = first.dtype.itemsize, first.shape
    rows = [
        np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, size)
        for array in (first, second)
    ]
    differing = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    if not len(differing):
        return None
    one, other = (array.reshape(-1)[differing] for array in (first, second))
    steps, valid = _steps(one, other)
    largest = int(np.argmax(np.where(valid, steps, 0))) if valid.any() else None

    def index(position: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(differing[position], shape))

    return Distance(
        first.size,
        len(differing),
        None if largest is None else int(steps[largest]),
        int(np.sum(_is_nan(one) | _is_nan(other))),
        index(0),
        (str(one[0]), str(other[0])),
        None if largest is None else index(largest),
    )


def _steps(one: Any, other: Any) -> tuple[Any, Any]:
    """Returns the distances, uint64, and which of them are valid."""
    if jnp.issubdtype(one.dtype, jnp.complexfloating):
        parts = [_steps(getattr(one, part), getattr(other, part)) for part in ("real", "imag")]
        (real, first), (imaginary, second) = parts
        return np.maximum(real, imaginary), first & second
    ranks = [_rank(values) for values in (one, other)]
    valid = ~(_is_nan(one) | _is_nan(other))
    low, high = np.minimum(*ranks), np.maximum(*ranks)
    # The difference of two int64 may need 64 bits, which the arithmetic of uint64 gives.
    return high.astype(np.uint64) - low.astype(np.uint64), valid


def _rank(values: Any) -> Any:
    """Returns the rank of each number among all numbers of its dtype, in order."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
    width = values.dtype.itemsize * 8
    bits = np.ascontiguousarray(values).view(f"i{width // 8}").astype(np.int64)
    magnitude = bits & np.int64((1 << (width - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def _is_nan(values: Any) -> Any:
    if jnp.issubdtype(values.dtype, jnp.integer) or values.dtype == bool:
        return np.zeros(values.shape, bool)
    wide = np.complex128 if jnp.issubdtype(values.dtype, jnp.complexfloating) else np.float64
    return np.isnan(values.astype(wide))
