"""``python -m impl demo``: shows the mode at work.

Each section prints claims and checks them. The command fails if one does not hold. Sections 4 to 6
train a net that predicts the next character of a text from the eight before it. The net is plain
JAX. ``python -m impl._demo SIZE MODE...`` trains it in a process of its own.

The first section prints three sums, a paragraph and a claim::

        separate     1.100000000000168e-25
        combined     1.1000000000002118e-25
        interleaved  1.0999999999998715e-25
    ...
    [ok] three orders, three results
"""

from __future__ import annotations

import functools
import json
import operator
import os
import platform
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pydoc_data.topics import topics
from typing import Any, NamedTuple, TextIO, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl
import spec
from impl import _jax

Weights: TypeAlias = dict[str, Any]
#: The outcome of a training: the SHA-256 of the weights, and the loss before and after it.
Outcome: TypeAlias = dict[str, Any]

_WIDTH = 88
CONTEXT = 8


class Size(NamedTuple):
    """The number of steps of a training, of examples in a step, and of the units of its net."""

    steps: int
    batch: int
    width: int
    hidden: int


#: Under schedules kernels are interpreted, and each of eight devices compiles. Both are slow.
SIZES = {"full": Size(400, 256, 16, 128), "tiny": Size(5, 64, 8, 16)}
ORDERS, ORDERS_OF_TRAINING = 20, 3


class Report:
    """Writes sections to a stream, and counts the claims in them.

    Attributes:
        claims: Number of claims so far.
        failed: The claims that do not hold.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.claims = 0
        self.failed: list[str] = []

    def section(self, title: str) -> None:
        """Writes the title of a section."""
        self.line(f"\n{title}\n{'-' * len(title)}")

    def text(self, text: str, first: str = "", rest: str = "") -> None:
        """Writes a wrapped paragraph, whose lines begin with ``first`` and then with ``rest``."""
        self.line(textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=rest))

    def claim(self, text: str, *, holds: bool) -> None:
        """Writes a claim and whether it holds."""
        self.claims += 1
        if not holds:
            self.failed.append(text)
        mark = "[ok] " if holds else "[FAILED] "
        self.text(text, mark, " " * len(mark))

    def line(self, text: str = "") -> None:
        """Writes a line at once, since a section takes seconds."""
        print(text, file=self._out, flush=True)


def left_to_right(numbers: Iterable[float]) -> float:
    """Returns the sum with one rounding for each addition."""
    # sum() would not do: from Python 3.12 on, it compensates the rounding errors.
    return functools.reduce(operator.add, numbers, 0.0)


def show_sums(report: Report) -> None:
    """Section 1: one list of numbers, added up in three orders."""
    report.section("1. One sum, three orders (plain Python floats)")
    small, large = [1e-30] * 10_000, [1e-29] * 10_000
    totals = {
        "separate": left_to_right(small) + left_to_right(large),
        "combined": left_to_right(small + large),
        "interleaved": left_to_right(s + t for s, t in zip(small, large, strict=True)),
    }
    for order, total in totals.items():
        report.line(f"    {order:<12} {total!r}")
    report.text(
        "Every floating-point addition rounds, so (a + b) + c and a + (b + c) may differ, and a "
        "sum that many threads share depends on who comes first."
    )
    report.claim("three orders, three results", holds=len(set(totals.values())) == 3)


def show_alert(report: Report) -> None:
    """Section 2: an op that raises under one profile and is ordered under another."""

    def lowered(profile: str) -> str:
        with impl.deterministic(profile=profile):
            smallest = impl.testing.lower(lambda x: impl.kthvalue(x, 1).indices, jnp.zeros(10_000))
            return smallest.as_text()

    report.section("2. kthvalue with the mode on, lowered for an NVIDIA GPU (none is needed)")
    message = "(nothing)"
    try:
        lowered("torch-1.10")
    except RuntimeError as error:
        message = str(error)
    report.text('profile="torch-1.10" raises RuntimeError:')
    report.text(message, "    ", "    ")
    report.claim(
        "it is refused, by the name that PyTorch gives it",
        holds=message.startswith("kthvalue CUDA does not have a deterministic implementation"),
    )
    program = lowered("complete")
    operations = sorted(set(re.findall(r"stablehlo\.\w*(?:sort|gather|scatter)\w*", program)))
    report.text(f'profile="complete" lowers to {", ".join(operations)}')
    report.claim(
        "there it is a sort that keeps the order of equal elements",
        holds="stablehlo.sort" in operations and "is_stable = true" in program,
    )


def under_schedules(digest: Callable[[], str], mode: bool, count: int) -> list[str]:
    """Returns the digest that a program gives on the CPU under each of some schedules."""
    seed, digests = impl.testing.Seed(), []
    on_cpu = jax.default_device(jax.devices("cpu")[0])
    with on_cpu, impl.testing.schedule(seed), impl.deterministic(mode, profile="complete"):
        for seed.value in range(count):
            digests.append(digest())
    return digests


def show_schedules(report: Report) -> None:
    """Section 3: a scatter-add in the orders that a GPU may take, shown on a CPU."""
    source = np.random.default_rng(0).standard_normal(4096, np.float32)
    index = np.arange(len(source)) % 4

    def sums(direction: int = 1) -> str:
        given = index[::direction], source[::direction]
        return impl.digest(impl.scatter_add(jnp.zeros(4, jnp.float32), 0, *given))

    report.section(f"3. scatter_add of {len(source)} float32 values into 4 sums")
    report.text(
        f"The kernels for the GPU are interpreted on the CPU, under {ORDERS} orders of programs "
        "and of atomic updates: a GPU may take any of them."
    )
    atomic, ordered = (under_schedules(sums, mode, ORDERS) for mode in (False, True))
    report.line(f"    mode off, atomic path   {len(set(atomic)):>2} different results")
    report.line(f"    mode on, ordered path   {len(set(ordered)):>2}  SHA-256 {ordered[0][:16]}…")
    report.claim("the atomic path gives several results", holds=len(set(atomic)) > 1)
    report.claim("the ordered path gives one", holds=len(set(ordered)) == 1)
    with impl.deterministic(profile="complete", guarantee="portable"):
        exact = [sums(), sums(-1)]
    report.line(f"    guarantee portable         SHA-256 {exact[0][:16]}…")
    report.claim("under portable the source may have another order", holds=exact[0] == exact[1])


@functools.cache
def text() -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the Python language reference, of ``help()``, as a number for each character."""
    joined = "".join(topics[name] for name in sorted(topics))
    points = np.frombuffer(joined.encode("utf-32-le"), "<u4")
    return np.unique(points, return_inverse=True)[1].astype(np.int32)


def entropy() -> float:
    """Returns the loss of a net that knows how frequent each character is, and no more."""
    shares = np.bincount(text()) / len(text())
    return float(-(shares * np.log(shares)).sum())


def loss(weights: Weights, contexts: jax.Array, following: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of the character that follows each context."""
    # The gradient of the table adds thousands of rows into about a hundred.
    joined = weights["table"][contexts].reshape(len(contexts), -1)
    scores = jax.nn.relu(joined @ weights["into"]) @ weights["out"]
    right = jax.nn.one_hot(following, scores.shape[1]) * jax.nn.log_softmax(scores)
    return -jnp.mean(right.sum(axis=1))


@jax.jit
def step(weights: Weights, contexts: jax.Array, following: jax.Array) -> tuple[Weights, jax.Array]:
    """Returns the weights after one step down the gradient, and the loss before it."""
    value, gradient = jax.value_and_grad(loss)(weights, contexts, following)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradient), value


def train(size: Size, devices: Sequence[Any]) -> Outcome:
    """Trains with each batch cut over devices, under the mode that holds."""
    mesh, rng, source = Mesh(np.array(devices), ("data",)), np.random.default_rng(0), text()
    whole, cut = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("data",)))
    alphabet = int(source.max()) + 1
    shapes = {
        "table": (alphabet, size.width),
        "into": (CONTEXT * size.width, size.hidden),
        "out": (size.hidden, alphabet),
    }
    drawn = {name: np.float32(rng.normal(size=shape) / 4) for name, shape in shapes.items()}
    weights, losses = jax.device_put(drawn, whole), []
    for _ in range(size.steps):
        starts = rng.integers(0, len(source) - CONTEXT, size.batch)
        batch = source[starts[:, None] + np.arange(CONTEXT)], source[starts + CONTEXT]
        weights, value = step(weights, *jax.device_put(batch, cut))
        losses.append(value)
    return {"weights": impl.digest(weights), "loss": [float(losses[0]), float(losses[-1])]}


def trainings(
    size: str, modes: Sequence[str], environments: Sequence[Mapping[str, str]]
) -> list[dict[str, Outcome]]:
    """Trains in a process for each environment, all at once, under one mode after the other.

    Raises:
        RuntimeError: A process failed.
    """
    children = [
        subprocess.Popen(  # noqa: S603  # This interpreter runs this file.
            [sys.executable, "-m", "impl._demo", size, *modes],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The process that starts it uses the same GPU.
            env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment},
            text=True,
        )
        for environment in environments
    ]
    ended = [(child, *child.communicate()) for child in children]
    for child, _, errors in ended:
        if child.returncode != 0:
            raise RuntimeError(f"training failed in a process of its own:\n{errors}")
    return [json.loads(output) for _, output, _ in ended]


def with_flags(*flags: str) -> dict[str, str]:
    """Returns the environment variable of XLA's flags, with some more."""
    return {"XLA_FLAGS": " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()}


def show_processes(report: Report) -> None:
    """Section 4: one training in two processes."""
    name, size = jax.devices()[0].platform, SIZES["full"]
    report.section(f"4. A training run, twice, in two processes on this machine's {name}")
    report.text(
        f"A classifier tells the next character of the Python language reference ({len(text()):,} "
        f"characters, from pydoc_data.topics) from the {CONTEXT} before it, in {size.steps} steps. "
        "The training is plain jax.numpy, with one line added: "
        "impl.use_deterministic_algorithms(True). Its gradient adds "
        f"{size.batch * CONTEXT:,} rows into {text().max() + 1} at each step."
    )
    device, flags = spec.load().backends.get(name), []
    if device is not None and device.races:
        flags = ["--xla_gpu_autotune_level=0"]
        report.text(
            "Autotuning is off in both: it may pick another algorithm for a matrix product each "
            "time it compiles."
        )
    elif device is not None:
        report.text(
            "XLA's scatters on a CPU keep one order also without the mode. Sections 3 and 5 show "
            "the orders that a GPU may take."
        )
    environments = [{**with_flags(*flags), "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    outcomes = [each["run_to_run"] for each in trainings("full", ["run_to_run"], environments)]
    for number, outcome in enumerate(outcomes, 1):
        before, after = outcome["loss"]
        report.line(f"    process {number}: loss {before:.4f} -> {after:.4f}")
        report.line(f"    SHA-256 of the weights: {outcome['weights']}")
    report.claim(
        "both processes end with the same weights and losses", holds=outcomes[0] == outcomes[1]
    )
    report.claim(
        f"it has learnt: the loss by the frequency of characters alone is {entropy():.4f}",
        holds=outcomes[0]["loss"][1] < 0.9 * entropy(),
    )


def show_training_under_schedules(report: Report) -> None:
    """Section 5: a small training in the orders that a GPU may take."""
    size = SIZES["tiny"]
    report.section("5. The same training, tiny, under other orders of the gradient's additions")
    report.text(
        f"{size.steps} steps on the CPU. With the mode off it adds the rows of the gradient in "
        "orders that a GPU may take; with the mode on it interprets the GPU's ordered kernel."
    )

    def weights() -> str:
        return str(train(size, jax.devices("cpu")[:1])["weights"])

    atomic, ordered = (under_schedules(weights, mode, ORDERS_OF_TRAINING) for mode in (False, True))
    for number, (off, on) in enumerate(zip(atomic, ordered, strict=True)):
        report.line(f"    order {number}: mode off {off[:16]}…  mode on {on[:16]}…")
    report.claim("with the mode off the weights differ", holds=len(set(atomic)) > 1)
    report.claim("with the mode on they are the same", holds=len(set(ordered)) == 1)


def places(own: str) -> dict[str, dict[str, str]]:
    """Returns the environment of a process on each set of devices of this machine, by its name.

    ``own`` is the platform on which JAX starts here.
    """
    # XLA compiles for most of the time of a process, and less at this level.
    quick = "--xla_backend_optimization_level=0"
    on_cpu = {
        count: {
            **with_flags(f"--xla_force_host_platform_device_count={count}", quick),
            "JAX_PLATFORMS": "cpu",
        }
        for count in (1, 8)
    }
    named = {"1 cpu": on_cpu[1], "8 cpus": on_cpu[8]}
    return named if own == "cpu" else {**named, f"1 {own}": {}}


def show_devices(report: Report) -> None:
    """Section 6: one training on one device and on eight, and on a GPU or TPU of this machine."""
    report.section("6. One training on one device and on eight")
    report.text(
        "The batch is cut over the devices, so each adds up a part of every gradient. Plain JAX "
        'rounds the parts. With impl.use_deterministic_algorithms(True, guarantee="portable") '
        "the sums are exact, so that it does not matter how they are cut."
    )
    where = places(jax.devices()[0].platform)
    outcomes = trainings("tiny", ["plain", "portable"], list(where.values()))
    plain, portable = ([each[mode]["weights"] for each in outcomes] for mode in outcomes[0])
    for place, rounded, exact in zip(where, plain, portable, strict=True):
        report.line(f"    {place:<7} plain {rounded[:16]}…  portable {exact[:16]}…")
    report.claim("plain JAX gives several results", holds=len(set(plain)) > 1)
    report.claim("the guarantee portable gives one", holds=len(set(portable)) == 1)


SECTIONS: tuple[Callable[[Report], None], ...] = (
    show_sums,
    show_alert,
    show_schedules,
    show_processes,
    show_training_under_schedules,
    show_devices,
)


def run(out: TextIO, sections: Sequence[Callable[[Report], None]] = SECTIONS) -> int:
    """Runs the sections one after the other.

    Returns:
        The exit status: 0 if all claims hold, 1 otherwise.
    """
    started = time.perf_counter()
    # Otherwise this process takes most of the GPU's memory, which the trainings need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # Interpreted kernels run on the CPU. With JAX_PLATFORMS=cuda, JAX would not offer it.
    platforms = _jax.platforms()
    if platforms and "cpu" not in platforms.split(","):
        jax.config.update("jax_platforms", f"{platforms},cpu")
    report, device = Report(out), jax.devices()[0]
    report.line(
        f"samebits on jax {jax.__version__}, Python {platform.python_version()}, "
        f"device: {device.platform} ({device.device_kind})"
    )
    for show in sections:
        show(report)
    seconds = f"{time.perf_counter() - started:.0f} s"
    if report.failed:
        report.line(f"\n{len(report.failed)} of {report.claims} claims do not hold ({seconds}):")
        for claim in report.failed:
            report.line(f"    {claim}")
        return 1
    report.line(f"\nAll {report.claims} claims hold ({seconds}).")
    return 0


def _train_in_this_process(size: str, *modes: str) -> None:
    """Writes the outcome under each mode as JSON. "plain", the mode off, comes first."""
    outcomes = {}
    for mode in modes:
        if mode != "plain":
            impl.use_deterministic_algorithms(True, guarantee=mode)
        outcomes[mode] = train(SIZES[size], jax.devices())
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    _train_in_this_process(*sys.argv[1:])
