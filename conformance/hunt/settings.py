"""How a program is called, and by which process: each setting must give the same bits.

A setting of a program with rows may share them by ``shard_map`` or ``jax.pmap``. Any other one may
shard the axes of arguments, and constrain variables. For example, over the devices of a mesh of two
axes::

    Setting("nested", worker=1, mesh=(2, 4), partition="jit",
            specs=((("a",), ()), ((), ("a", "b"))))
"""

from __future__ import annotations

import dataclasses
import math

from conformance.hunt.pool import WEIGHTS, Dice
from conformance.hunt.program import Aval, Program
from conformance.hunt.tokens import TOKENS

#: The names of the axes of a mesh.
AXES = ("a", "b", "c")
MESHES = ((2,), (3,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2))
#: The most equations of a program that also runs equation by equation, each compiled alone, or by
#: integers, which takes five to ten times as long to compile.
_LONG = 3
#: The numbers of settings of a bundle.
_OF_BUNDLES = (0, 0, 1, 2)
#: The mesh axes that share each axis of an array.
Spec = tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a program runs.

    Attributes:
        call: How it is called, one of the calls of ``weights.toml``.
        worker: The number of the worker.
        mesh: The sizes of the axes of a mesh; empty for one device.
        partition: ``none``, ``jit`` (sharded arguments), ``explicit`` (axes in types), or
            ``shard_map`` or ``pmap`` (shared rows).
        check_vma: Whether ``shard_map`` checks what varies over devices.
        specs: The sharding of each argument.
        constraints: Variables, and a sharding for each.
    """

    call: str = "jit"
    worker: int = 0
    mesh: tuple[int, ...] = ()
    partition: str = "none"
    check_vma: bool = False
    specs: tuple[Spec, ...] = ()
    constraints: tuple[tuple[int, Spec], ...] = ()

    def __str__(self) -> str:
        parts = [f"call {self.call}, worker {self.worker}"]
        if self.mesh:
            parts.append(f"mesh {'x'.join(map(str, self.mesh))} by {self.partition}")
        return ", ".join(parts)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of the mesh."""
        return AXES[: len(self.mesh)]


BASE = Setting()
#: With the options of the first worker, XLA compiles the engine of integers for minutes.
_BY_INTEGERS = Setting("integers", 1)


def by_rows(aval: Aval, axes: tuple[str, ...]) -> Spec:
    """Returns the sharding of an array whose rows, if it has some, the axes of a mesh share."""
    first = axes if aval.rows else ()
    return tuple(() if number else first for number in range(len(aval.shape)))


def base_of(setting: Setting, program: Program) -> Setting:
    """Returns the setting with which one is compared.

    The derivative of a ``shard_map`` adds the cotangents of replicated arguments over devices, so a
    gradient -0.0 becomes 0.0. It is compared with a ``shard_map`` of one device, which adds, too. A
    constrained value and the value itself each add the parts of their own uses in a derivative, so
    constraints stay on a mesh of one device.
    """
    is_plain = setting.partition != "shard_map" and not setting.constraints
    if is_plain or program.derivative == "none":
        return BASE
    return dataclasses.replace(setting, call="jit", worker=0, mesh=(1,) * len(setting.mesh))


def draw(dice: Dice, program: Program, workers: int) -> list[Setting]:
    """Returns two to four settings for a program and two or more workers.

    They are compared with ``BASE``.

    A bundle has exact values to be compared with. It gets none to two settings, each of which costs
    as much as another bundle, at least one if it has rows to share, and more if its family says so.
    A short one may get the engine of integers, too.
    """
    count, chances = dice.randint(2, 4), 75 if program.has_rows else 55
    if program.is_bundle:
        family = WEIGHTS["families"].get(TOKENS[program.equations[0].token].family, {})
        least = family.get("settings", int(program.has_rows))
        count, chances = max(dice.choice(_OF_BUNDLES), least), 95 if least else 55
    settings = [_one_device(dice, program, workers) for _ in range(count)]
    for position in range(count if program.is_bundle else count - 1):
        if dice.happens(chances):
            settings[position] = _on_mesh(dice, program, workers)
    # The values of a bundle are near to ties, where an engine that errs beyond its bound shows.
    if program.is_bundle and _is_quick(program) and dice.happens(30):
        settings.append(_BY_INTEGERS)
    return settings


def _is_quick(program: Program) -> bool:
    """Returns whether XLA compiles the engine of integers in some seconds."""
    return len(program.equations) <= _LONG and not program.is_wide


def _one_device(dice: Dice, program: Program, workers: int) -> Setting:
    is_long = len(program.equations) > _LONG
    mixes = any("devices(" in TOKENS[each.token].expression for each in program.equations)
    # A sum over rows, as in the derivative of what they share, has another value for other rows.
    has_own_rows = program.has_rows and not mixes and program.derivative in ("none", "forward")
    worker, call = _worker(dice, workers), dice.weighted(WEIGHTS["calls"])
    if call == "eager" and is_long:
        call = "constants"
    if call == "rows" and not has_own_rows:
        call = "scope"
    if call == "integers":
        if _is_quick(program):
            return _BY_INTEGERS
        call = "constants"
    return Setting("jit" if worker and dice.happens(40) else call, worker)


def _worker(dice: Dice, count: int) -> int:
    """Returns the number of a worker: in half of the draws the first one, the cheapest.

    Workers of other releases get a third of the draws: few programs differ between releases.
    """
    releases = count - 2
    weights = [6, 2, *[4 / releases] * releases] if releases > 0 else [6, 6]
    return dice.choices(range(count), weights)[0]


def _on_mesh(dice: Dice, program: Program, workers: int) -> Setting:
    mesh = dice.choice(MESHES)
    worker, call = _worker(dice, workers), dice.weighted(WEIGHTS["sharded_calls"])
    axes = AXES[: len(mesh)]
    count = math.prod(mesh)
    rows = next((each.aval.shape[0] for each in program.inputs if each.aval.rows), 1)
    gathers = any(each.token in _GATHERING for each in program.equations)
    is_reverse = program.derivative in ("reverse", "mixed")
    if program.has_rows and rows % count == 0 and not (gathers and is_reverse) and dice.happens(70):
        specs = tuple(by_rows(each.aval, axes) for each in program.inputs)
        if len(mesh) == 1 and program.derivative == "none" and dice.happens(20):
            return Setting("eager", worker, mesh, "pmap", specs=specs)
        # Without the check, JAX divides the cotangents of replicated results by the number of
        # devices, and adds them later: three devices round their parts.
        check_vma = not gathers and (is_reverse or dice.happens(50))
        return Setting(call, worker, mesh, "shard_map", check_vma, specs)
    sizes = dict(zip(axes, mesh, strict=True))
    chances = 85 if program.is_bundle else 55
    inputs = tuple(_spec(dice, each.aval, sizes, chances) for each in program.inputs)
    avals = program.avals()
    # So arguments, too, may have tiles of unequal lengths.
    first = program.primals if program.derivative != "none" else 0
    percents = enumerate([30] * program.primals + [15] * len(program.equations))
    targets = [v for v, percent in percents if v >= first and dice.happens(percent)]
    constraints = tuple((v, _spec(dice, avals[v], sizes, chances, even=False)) for v in targets)
    if dice.happens(6):
        return Setting("jit", worker, mesh, "explicit", specs=inputs)
    return Setting(call, worker, mesh, "jit", specs=inputs, constraints=constraints)


#: Tokens whose result ``shard_map`` cannot prove to be the same on all devices.
_GATHERING = [name for name, each in TOKENS.items() if "all_gather" in each.primitives]


def _spec(
    dice: Dice, aval: Aval, sizes: dict[str, int], chances: int, *, even: bool = True
) -> Spec:
    """Returns a sharding of an array; ``even`` keeps to sizes that the devices can share."""
    free, spec = list(sizes), []
    for size in aval.shape:
        chosen: list[str] = []
        if free and dice.happens(chances):
            both = min(len(free), 2 if dice.happens(25) else 1)
            chosen = sorted(dice.sample(free, both))
            count = math.prod(sizes[name] for name in chosen)
            if size == 0 or (even and size % count):
                chosen = []
        free = [name for name in free if name not in chosen]
        spec.append(tuple(chosen))
    return tuple(spec)
