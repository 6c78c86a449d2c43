"""The cost of a case: with the mode on, with the mode off, and as plain JAX."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import impl
from conformance.lab.compiled import assembler, device_programs, hlo_costs, ptx_reader
from conformance.lab.compiled.costs.case import CostCase
from conformance.lab.compiled.device_programs import DeviceProgram, Dimensions
from conformance.lab.compiled.hlo_costs import Account, Conditional, Launch, Loop
from conformance.lab.compiled.ptx_reader import Multiplication

#: The profile with a deterministic path for every op.
PROFILE = "complete"
#: The modes that a case is compiled under.
SIDES = ("on", "off", "plain")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What one launch of a kernel takes. None is unknown.

    Attributes:
        programs: The thread blocks.
        warps: The warps of each.
        registers: The registers of a thread.
        spilled: The bytes that a thread spills.
        shared: The bytes of shared memory of a block.
        loops: The loops in its code.
        loaded: The bytes that all threads load outside of loops, if no mask leaves one out.
        repeated: The bytes that a thread loads in each round of its loops.
        multiplication: What a thread does to multiply.
    """

    programs: int | None = None
    warps: int | None = None
    registers: int | None = None
    spilled: int | None = None
    shared: int | None = None
    loops: int | None = None
    loaded: int | None = None
    repeated: int | None = None
    multiplication: Multiplication | None = None


@dataclasses.dataclass(frozen=True)
class ProgramCost:
    """The cost of one program.

    Attributes:
        launches: The launches of a run.
        moved: The bytes of their operands and results.
        floor: The bytes of the operands that it uses and of its results, each once.
        parts: Each instruction that starts something, and what its kernel takes.
        loops: The loops of XLA's.
        conditionals: The conditionals, and what their branches cost.
        with_cub: Whether a sort is CUB's.
    """

    launches: int
    moved: int
    floor: int
    parts: tuple[tuple[Launch, Kernel], ...]
    loops: tuple[Loop, ...]
    conditionals: tuple[Conditional, ...]
    with_cub: bool

    @property
    def seconds(self) -> float:
        """An estimate, to compare programs: 2 us for each launch, and 4.8 TB/s, as of an H200."""
        return self.launches * 2e-6 + self.moved / 4.8e12

    @property
    def rounds(self) -> int | None:
        """The rounds of all loops; None if nothing bounds one."""
        counts = [loop.count for loop in self.loops]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def multiplication(self) -> Multiplication | None:
        """What a thread of the kernel that multiplies most does; None if no kernel of ours does."""
        found = [
            kernel.multiplication
            for launch, kernel in self.parts
            if launch.kind == "Pallas" and kernel.multiplication
        ]
        most = max(found, key=lambda each: each.products, default=None)
        return most if most and most.products and most.loaded else None

    @property
    def spilled(self) -> int | None:
        """The most bytes that a thread of a Pallas kernel spills; None if that is unknown."""
        found = [kernel.spilled for launch, kernel in self.parts if launch.kind == "Pallas"]
        return max((each for each in found if each is not None), default=None)

    @property
    def serial(self) -> int:
        """The bytes that kernels with a loop move in a single program."""
        return sum(
            launch.total.moved
            for launch, kernel in self.parts
            if launch.kind == "Pallas" and kernel.programs == 1 and kernel.loops
        )


@dataclasses.dataclass(frozen=True)
class CaseCost:
    """The costs of a case.

    Attributes:
        case: The name of the case.
        target: The name of the GPU.
        sides: The cost of each side that compiled.
        errors: Why a side did not compile.
        seconds: The seconds that it took.
    """

    case: str
    target: str
    sides: Mapping[str, ProgramCost]
    errors: Mapping[str, str]
    seconds: float

    @property
    def floor(self) -> int:
        """The bytes that each side has to move."""
        return min(side.floor for side in self.sides.values())


def measure(case: CostCase, target: str) -> CaseCost:
    """Compiles the sides of a case for a GPU, and counts them. Prepare the process first."""
    start = time.perf_counter()
    sides: dict[str, ProgramCost] = {}
    errors: dict[str, str] = {}
    known: dict[str, DeviceProgram] = {}
    for side, function in _sides(case):
        try:
            with impl.deterministic(side == "on", profile=PROFILE if side == "on" else None):
                program = device_programs.compile_for_device(function, case.inputs, target, known)
            sides[side] = cost_of(program, case.rounds, case.unlikely, assembled=side == "on")
        except Exception as error:  # noqa: BLE001  # a compiler's error, whatever it is, is reported
            errors[side] = f"{type(error).__name__}: {error}"
    return CaseCost(case.name, target, sides, errors, time.perf_counter() - start)


def _sides(case: CostCase) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "on", case.call
    if case.plain is not None:
        yield "off", case.call
        yield "plain", case.plain


def cost_of(
    program: DeviceProgram,
    rounds: Mapping[str, int],
    unlikely: Sequence[str] = (),
    *,
    assembled: bool = False,
) -> ProgramCost:
    """Returns the cost of a program.

    Args:
        program: The program.
        rounds: The rounds of loops that it does not bound, by a part of their scope.
        unlikely: Parts of the scopes of launches, whose branches of conditionals do not count.
        assembled: Whether to assemble its kernels, which tells their registers.
    """
    account: Account = hlo_costs.account_of(program.hlo, rounds, unlikely)
    total = account.cost
    return ProgramCost(
        launches=total.launches,
        moved=total.moved,
        floor=account.floor,
        parts=tuple(
            (each, _kernel(each, program, assembled=assembled)) for each in account.launches
        ),
        loops=account.loops,
        conditionals=account.conditionals,
        with_cub=program.with_cub,
    )


def _kernel(launch: Launch, program: DeviceProgram, *, assembled: bool) -> Kernel:
    """Returns what the kernel of a launch takes; of several that it may be, the one that spills."""
    if launch.kind not in {"kernel", "Pallas"}:
        return Kernel()
    names = _kernel_names(launch, program.dimensions)
    kernels = [_kernel_of_name(name, program, assembled=assembled) for name in names]
    return max(
        kernels,
        key=lambda each: (each.spilled or 0, each.registers or 0),
        default=Kernel(launch.programs, launch.warps),
    )


def _kernel_of_name(name: str, program: DeviceProgram, *, assembled: bool) -> Kernel:
    text, size = program.kernels.get(name), program.dimensions[name]
    kernel = Kernel(size.programs, size.warps, shared=size.shared)
    if text is None:
        return kernel
    code = ptx_reader.entries(text)[name]
    once, repeated = ptx_reader.loads(code)
    kernel = dataclasses.replace(
        kernel,
        loops=ptx_reader.loops(code),
        loaded=once * 32 * size.programs * size.warps,
        repeated=repeated,
        multiplication=ptx_reader.multiplication(code),
    )
    ptxas = assembler.find_assembler() if assembled else None
    if ptxas is None:
        return kernel
    taken = assembler.kernel_resources(text, ptxas)
    return dataclasses.replace(
        kernel,
        registers=taken.registers,
        spilled=taken.spilled,
        shared=size.shared + taken.shared,
    )


def _kernel_names(launch: Launch, dimensions: Mapping[str, Dimensions]) -> list[str]:
    """Returns XLA's names of the kernels that a launch may be of; none if that cannot be told.

    Kernels of Pallas that have one name, and one number of programs, cannot be told apart.
    """
    if launch.kind == "kernel":
        name = re.sub(r"[.-]", "_", launch.name)
        return [name] if name in dimensions else []
    stem, found = launch.note, []
    for name, size in sorted(dimensions.items()):
        number = name.removeprefix(stem).lstrip("_")
        same = name.startswith(stem) and (not number or number.isdigit())
        if same and size.programs == launch.programs:
            found.append(name)
    return found
