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
import itertools
import os
from collections.abc import Iterator
from typing import Any

from impl.digests._distance import Distance, distance
from impl.digests._log_file import LogFile, Record

#: The number of leaves that the text lists after the first.
_MORE = 5


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
    one, other = (log.steps for log in logs)
    steps = sorted(one.keys() & other.keys())
    if not any(one[step].keys() & other[step].keys() for step in steps):
        raise ValueError(
            f"the two logs have no tree of a step in common: {logs[0].path!r} has "
            f"{_contents(logs[0])}, {logs[1].path!r} has {_contents(logs[1])}"
        )
    differing = [step for step in steps if next(_trees(logs, step, common), None) is not None]
    return Comparison(
        (logs[0].path, logs[1].path),
        len(steps),
        len(steps) - len(differing),
        _difference(logs, differing[0], common) if differing else None,
        (tuple(sorted(one.keys() - other.keys())), tuple(sorted(other.keys() - one.keys()))),
        tuple(sentence for log in logs for sentence in _repeats(log)),
        _environment(logs),
        common,
    )


def _trees(logs: tuple[LogFile, LogFile], step: int, common: bool) -> Iterator[str]:
    """Yields the names of the trees of a step that differ."""
    one, other = (log.steps[step] for log in logs)
    for name in [*one, *(name for name in other if name not in one)]:
        if name in one and name in other:
            if one[name][-1].digest != other[name][-1].digest:
                yield name
        elif not common:
            yield name


def _difference(logs: tuple[LogFile, LogFile], step: int, common: bool) -> Difference:
    leaves = [each for name in _trees(logs, step, common) for each in _leaves(logs, step, name)]
    first, others = leaves[0], leaves[1:]
    named = (f"{each.tree}{each.leaf or ''}" for each in others)
    return dataclasses.replace(first, others=tuple(named))


def _leaves(logs: tuple[LogFile, LogFile], step: int, name: str) -> Iterator[Difference]:
    """Yields the leaves of a tree that differ, in the order of the first log."""
    records = tuple(log.steps[step].get(name, []) for log in logs)
    if not all(records):
        present = ("" if records[0] else None, "" if records[1] else None)
        yield Difference(step, name, None, present, (None, None), None, ())
        return
    sides = [_side(log, of_tree[-1], name) for log, of_tree in zip(logs, records, strict=True)]
    one, other = sides
    for path in [*one, *(path for path in other if path not in one)]:
        (type_1, digest_1, data_1), (type_2, digest_2, data_2) = (
            side.get(path, (None, None, None)) for side in sides
        )
        if digest_1 == digest_2 and type_1 == type_2:
            continue
        apart = None
        if type_1 is not None and type_1 == type_2 and None not in (data_1, data_2):
            apart = distance(type_1, data_1 or b"", data_2 or b"")
        yield Difference(step, name, path, (type_1, type_2), (digest_1, digest_2), apart, ())


_Side = dict[str, tuple[str | None, str | None, bytes | None]]


def _side(log: LogFile, record: Record, name: str) -> _Side:
    leaves = log.leaves(record, name)
    values = leaves.values or itertools.repeat(None)
    return {
        path: (type_, digest, data)
        for (path, type_), digest, data in zip(record.types, leaves.digests, values, strict=False)
    }


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
