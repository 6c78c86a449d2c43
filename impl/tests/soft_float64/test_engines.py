"""The engine of a program, which the device chooses; and the engines that have no float64.

Tests: impl._soft_float64.engines, impl._soft_float64.interpreter,
impl._soft_float64.reductions.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl import testing
from impl._soft_float64.interpreter import NotSupportedError, with_int8_products, without_float64

X = np.linspace(-2, 3, 48, dtype=np.float32).reshape(3, 16)


def text(platform, **options):
    with impl.deterministic(guarantee="portable"):
        lowered = testing.lower(lambda x: jnp.exp(x @ x.T), X, platform=platform, **options)
    return lowered.as_text()


#: Whether the program of an engine has float64, and products of int8.
KINDS = {
    "native": (True, False),
    "float64": (True, False),
    "int8": (True, True),
    "integers": (False, True),
}


@pytest.mark.parametrize("name", testing.engines())
def test_a_scope_chooses_the_engine(name):
    with testing.engine(name):
        program = text("cpu")
    assert ("f64" in program, "xi8>" in program) == KINDS[name]


@pytest.mark.parametrize(
    ("device", "kind", "name"),
    [
        ("cpu", None, "native"),
        ("cuda", "NVIDIA H200", "float64"),
        ("cuda", "NVIDIA L40S", "int8"),
        ("tpu", None, "integers"),
    ],
)
def test_the_device_chooses_the_engine_and_the_audit_names_it(device, kind, name):
    program = text(device, **({"device_kind": kind} if kind else {}))
    assert ("f64" in program, "xi8>" in program) == KINDS[name]
    mesh = jax.sharding.use_abstract_mesh(testing._mesh(kind)) if kind else contextlib.nullcontext()
    with mesh:
        with impl.deterministic(guarantee="portable"):
            report = impl.audit(jnp.sin, device=device)(X)
        assert impl.audit(jnp.sin, device=device)(X).engine is None
    assert report.engine == report.as_dict()["engine"] == name
    first = report.text().splitlines()[0]
    assert first == report.summary().splitlines()[0]
    assert first.endswith(f"guarantee='portable'), by the engine {name!r}:")


def test_a_function_is_compiled_again_for_another_engine():
    compiled = []

    @jax.jit
    def function(x):
        compiled.append(None)
        return x + 1

    with impl.deterministic(guarantee="portable"):
        function(X)
        with testing.engine("integers"):
            function(X)
            function(X)
    assert len(compiled) == 2


def test_an_unknown_engine_is_named():
    with pytest.raises(ValueError, match=r"engine\(\): .*'name'"):
        testing.engine("float32")


SMALL = X[:, :4]


def of_loops(x):
    total = lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (x, 0))[0]
    total, parts = lax.scan(lambda c, i: (c + x * i, c), total, jnp.arange(4.0))
    total = lax.cond(total.sum() > 0, lambda: total, lambda: -total)
    return total, parts


def of_complex(x):
    def step(s):
        return lax.complex(lax.real(s[0]) + 1.0, lax.imag(s[0]) * 2.0), s[1] + 1

    z, _ = lax.while_loop(lambda s: s[1] < 3, step, (lax.complex(x, -x), 0))
    return lax.real(z), lax.imag(z + z)


def of_reductions(x):
    raw = lax.bitcast_convert_type(x, np.int64)

    def step(a, b):
        return a[0] + b[0], lax.max(a[1], b[1])

    both = lax.reduce((x, raw), (np.float64(0), np.int64(-5)), step, (1,))
    # An axis may be an integer of NumPy, as a function of JAX passes it.
    rows = lax.reduce_sum_p.bind(x, axes=(np.int64(1),), out_sharding=None)
    return *both, rows, x.max(0), x.min(), jnp.cumsum(x, 1), jnp.cumsum(x[::-1], 0)


def of_places(x):
    spread = jnp.zeros((5, 4)).at[jnp.array([0, 4, 4])].add(x)
    return spread, spread.at[1].set(7.5), jnp.concatenate([x, x * 2])[::-1], jnp.clip(x, -0.5, 1)


def of_sorted(x):
    x = x.at[0, 1].set(np.nan).at[0, 2].set(-np.nan).at[1, 1].set(-0.0).at[1, 0].set(0.0)
    index = jnp.arange(x.size).reshape(x.shape)
    return lax.sort((x[:, ::-1], x, index), num_keys=2, dimension=1)


def of_numbers(x):
    whole = jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.sign(x)
    return (
        *whole,
        x / (x * x + 3),
        jnp.sqrt(jnp.abs(x)),
        x**2,
        -x,
        x == 0,
        x.astype(jnp.int32),
        x > 1,
    )


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    "function", [of_loops, of_complex, of_reductions, of_places, of_sorted, of_numbers]
)
def test_the_bits_are_the_same_and_no_float64_is_left(function):
    def run(x):
        results = jax.tree.leaves(function(lax.convert_element_type(x, np.float64)))
        return [
            jax.tree.map(
                lambda y: y if y.dtype != np.float64 else lax.bitcast_convert_type(y, np.uint64),
                each,
            )
            for each in results
        ]

    expected = jax.jit(run)(SMALL)
    soft = jax.jit(without_float64(run))
    assert "f64" in jax.jit(run).lower(SMALL).as_text()
    assert "f64" not in soft.lower(SMALL).as_text()
    for got, want in zip(soft(SMALL), expected, strict=True):
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


@pytest.mark.usefixtures("wide")
def test_operands_and_results_of_float64_are_read_and_written():
    x = np.linspace(-1, 1, 7)
    assert np.array_equal(without_float64(lambda x: x * x + 0.1)(jnp.asarray(x)), x * x + 0.1)


@pytest.mark.usefixtures("wide")
def test_an_operation_without_a_form_is_named():
    with pytest.raises(NotSupportedError, match=r"tan of float64\[3,4\] has no form"):
        without_float64(lambda x: jnp.tan(lax.convert_element_type(x, np.float64)))(SMALL)


@pytest.mark.usefixtures("wide")
def test_products_alone_become_products_of_int8():
    def run(x):
        wide = lax.convert_element_type(x, np.float64)
        return lax.fori_loop(0, 2, lambda _, y: y @ y.T @ y * 1e-3, jnp.tile(wide, (1, 3)))

    text = jax.jit(with_int8_products(run)).lower(SMALL).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    # The products of bfloat16 tell which results are infinite or NaN.
    assert products
    assert all("i8" in line or "bf16" in line for line in products)
    assert "multiply" in text
    assert np.allclose(with_int8_products(run)(SMALL), run(SMALL), rtol=1e-14)
