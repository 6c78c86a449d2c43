"""Training steps under each guarantee, programs with libraries of JAX, and errors of products.

A transformer of width 256 and a block of a ResNet run in plain JAX, under the guarantee
``run_to_run``, which is the mode's default, and under ``portable``, also with their batch over
eight devices. A case is a line of the table, with a side in each scope::

    | program     | devices | part    | plain | run_to_run | portable    |
    | transformer | 8       | compile | 2,000 | 2,000      | 15,000 (7.5) |

The numbers are made up.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
from conformance import programs
from conformance.benchmarks.engine import (
    MODE_OFF,
    PORTABLE,
    Benchmark,
    Case,
    Scope,
    Setting,
    compiled,
)
from conformance.benchmarks.families.calls import under_portable
from conformance.programs import Program, plain
from impl._exact import arithmetic

#: The most devices over which a batch is cut.
DEVICES = 8
#: The scope that each side is compiled in.
_GUARANTEES: Mapping[str, Scope] = {
    "plain": MODE_OFF,
    "run_to_run": functools.partial(impl.deterministic, guarantee="run_to_run"),
    "portable": PORTABLE,
}


def portable(_: Setting) -> Iterator[Case]:
    """Yields every program, whose batch several devices share."""
    devices = min(jax.device_count(), DEVICES)
    for name, program in TRAINED.items():
        step, args = program()
        args = _shared(args, devices) if devices > 1 else args
        about = {"program": name, "devices": str(devices)}
        sides = {side: compiled(step, args, scope) for side, scope in _GUARANTEES.items()}
        yield Case({**about, "part": "run"}, sides)
        compilations = {
            side: functools.partial(_compiled_anew, step, args, scope)
            for side, scope in _GUARANTEES.items()
        }
        yield Case({**about, "part": "compile"}, compilations, few=True)


def _compiled_anew(step: Callable[..., Any], args: tuple[Any, ...], scope: Scope) -> Any:
    jax.clear_caches()
    return compiled(step, args, scope)


def _shared(args: tuple[Any, ...], devices: int) -> tuple[Any, ...]:
    """Returns the arguments of a program on several devices, which cut the last one, a batch."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("data",))
    whole, cut = (NamedSharding(mesh, spec) for spec in (P(), P("data")))
    *others, batch = args
    return *jax.device_put(others, whole), jax.device_put(batch, cut)


def _resnet() -> Program:
    rng = np.random.default_rng(0)
    image = jnp.asarray(rng.normal(size=(8, 16, 16, 64)), np.float32)
    kernels = tuple(jnp.asarray(rng.normal(size=(3, 3, 64, 64)) / 24, np.float32) for _ in "12")
    scales = tuple(jnp.ones((64,), np.float32) for _ in "12")

    def normed(x: jax.Array, scale: jax.Array) -> jax.Array:
        return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)

    def loss(kernels: Any, scales: Any, image: jax.Array) -> jax.Array:
        x = jax.nn.relu(normed(convolved(image, kernels[0]), scales[0]))
        x = jax.nn.relu(image + normed(convolved(x, kernels[1]), scales[1]))
        return (x**2).mean()

    return jax.value_and_grad(loss, (0, 1, 2)), (kernels, scales, image)


#: The programs that are trained.
TRAINED: Mapping[str, Callable[[], Program]] = {
    "transformer": lambda: plain.transformer(256, 4, 2, 64, 32, 128),
    "ResNet block": _resnet,
}


@contextlib.contextmanager
def _without_rules() -> Iterator[None]:
    impl.programs.disable()
    try:
        yield
    finally:
        impl.programs.enable()


#: The programs of libraries, and the factor of the number of examples.
NAMES = programs.NAMES
_SCALE = 8
_MODES: Mapping[str, Scope] = {
    "plain JAX": _without_rules,
    "mode off": MODE_OFF,
    "ordered": impl.deterministic,
}


def libraries(setting: Setting) -> Iterator[Case]:
    """Yields a step of every program, and its tracing and lowering."""
    for name in setting.some(NAMES, 2):
        step, args = programs.build(name, _SCALE)
        steps = {side: compiled(step, args, scope) for side, scope in _MODES.items()}
        yield Case({"program": name, "work": "step"}, steps)
        lowerings = {
            side: functools.partial(_lowered, step, args, scope) for side, scope in _MODES.items()
        }
        yield Case({"program": name, "work": "trace and lower"}, lowerings, few=True)


def _lowered(step: Callable[..., Any], args: tuple[Any, ...], scope: Scope) -> jax.stages.Lowered:
    def program(*args: Any) -> Any:  # JAX has not traced it.
        return step(*args)

    with scope():
        return jax.jit(program).lower(*args)


#: The sides of square matrices.
SQUARES = (256, 512, 1024, 2048)
#: The images, height, width and channels of a convolution by 3 x 3 kernels.
IMAGES = ((8, 28, 28, 64),)
#: The binades, up and down from 1, over which the elements of an operand lie.
BINADES = {"Gaussian": 0, "24 binades": 12}


def products(setting: Setting) -> Iterator[Case]:
    """Yields square products and convolutions."""
    convolution = functools.partial(
        lax.conv_general_dilated,
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    for data, binades in BINADES.items():
        for n in setting.some(SQUARES, 2):
            about = {"product": f"[{n}, {n}] by [{n}, {n}]", "data": data}
            yield _with_errors(about, lax.dot, _draw(((n, n), (n, n)), binades))
        for image in IMAGES:
            about = {"product": f"{list(image)}, 3 x 3", "data": data}
            operands = _draw((image, (3, 3, image[-1], image[-1])), binades)
            yield _with_errors(about, convolution, operands)


def _with_errors(
    about: Mapping[str, str], function: Callable[..., Any], operands: tuple[Any, ...]
) -> Case:
    sides = under_portable(function, operands)
    with arithmetic.wide():
        doubles = [jnp.asarray(operand, np.float64) for operand in operands]
        right = np.asarray(function(*doubles))
        scale = np.asarray(function(*(abs(operand) for operand in doubles))) * 2.0**-24
    errors: dict[str, str] = {}
    for name, program in sides.items():
        error = np.abs(np.asarray(program(), np.float64) - right) / scale
        errors[f"error, {name}"] = f"{np.median(error):.2g}, {error.max():.2g}"
    return Case({**about, **errors}, sides)


def _draw(shapes: tuple[tuple[int, ...], ...], binades: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return tuple(
        np.float32(rng.standard_normal(shape) * 2.0 ** rng.integers(-binades, binades + 1, shape))
        for shape in shapes
    )


FAMILIES = {
    "portable": Benchmark(
        "The guarantee portable, float32",
        "plain",
        "portable",
        portable,
        (
            "Transformer: 2 layers, width 256, 4 heads, length 64, batch 32, 128 words, by Adam.",
            "ResNet: the gradient of two convolutions with batch norm, 8 x 16 x 16 x 64.",
            "Compile: to trace, lower and compile with empty caches.",
            "Eight devices of a CPU share its threads, and have a batch together.",
        ),
        DEVICES,
    ),
    "libraries": Benchmark(
        "Programs with Flax, Equinox, Jraph, NumPyro, BlackJAX and Optax, float32",
        "plain JAX",
        "ordered",
        libraries,
        (
            "`plain JAX`: the rules for JAX's primitives are turned off.",
            "On a CPU the steps of the three sides are one program: their ratios show the noise.",
            "Tracing and lowering takes longer than hundreds of steps, and is run less often.",
        ),
    ),
    "exact_products": Benchmark(
        "Exact products, float32",
        "plain",
        "portable",
        products,
        ("Errors against float64: median and greatest, in 2^-24 of the product of magnitudes.",),
    ),
}
