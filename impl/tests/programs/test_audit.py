"""``impl.audit``: its verdicts, under each mode and on each device, and its arguments.

``impl/tests/portable/scopes_on_eight_devices.py`` compares the note on sharded arrays with bits.

Tests: impl.programs._auditing.judge, impl.programs._auditing.sharded.
"""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import impl
import spec
from impl._core import ordered_primitives
from impl._jax import rules
from impl._kernels import pallas as pl
from impl.tests.programs import texts
from impl.tests.support.programs import scatters_floats

HERE = "impl/tests/programs/test_audit.py"
X, INDEX, UPDATES = jnp.ones(5), jnp.array([1, 1, 3]), jnp.ones(3)
COMPLEX = X.astype(complex)


def add(x):
    return x.at[INDEX].add(UPDATES)


def multiply(x):
    return x.at[INDEX].multiply(UPDATES)


def each_once(x):
    return x.at[jnp.arange(5)].multiply(x)


def zero(x):
    return x.at[INDEX].set(0.0)


def verdicts(function, *args, **options):
    return [f.verdict for f in impl.audit(function, **options)(*(args or (X,))).findings]


def test_a_finding_has_all_that_a_person_needs():
    report = impl.audit(add)(X)
    (finding,) = report.findings
    assert finding.primitive == "lax.scatter_add"
    assert finding.verdict == "varies"
    assert spec.load().row(finding.row).op == finding.primitive
    assert finding.source == f"{HERE}:{add.__code__.co_firstlineno + 1}"
    assert finding.shapes == "f32[5] i32[3,1] f32[3]"
    assert "Turn the mode on" in finding.remedy
    assert not report.ok
    assert (report.device, report.mode) == ("cuda", "the mode off")
    with impl.deterministic(profile="complete"):
        on = impl.audit(jax.jit(add))(X)
    assert on.ok
    assert (on.mode, on.findings[0].remedy) == ("the mode on (profile='complete')", None)
    with impl.deterministic(warn_only=True):
        assert "warn_only=True" in impl.audit(add)(X).mode


def of_impl(x):
    return impl.index_add(x, 0, INDEX, UPDATES)


@pytest.mark.parametrize(
    ("function", "x", "options", "verdict"),
    [
        (add, X, {"mode": False}, "varies"),
        (of_impl, X, {"mode": False}, "varies"),
        (of_impl, X, {}, "deterministic"),
        (jax.jit(multiply), COMPLEX, {}, "raises"),
        (jax.jit(multiply), COMPLEX, {"warn_only": True}, "varies"),
    ],
)
def test_a_verdict_is_of_the_mode_and_a_cpu_gives_the_same_bits_anyway(
    function, x, options, verdict
):
    with impl.deterministic(**options):
        assert verdicts(function, x) == [verdict]
        assert verdicts(function, x, device="cpu") == []
        if verdict == "raises":
            with pytest.raises(RuntimeError, match="scatter_mul has no deterministic"):
                impl.testing.lower(function, x)
            assert function.lower(x)


def test_what_only_values_prove_safe_is_stated_as_the_rules_treat_it():
    # With the mode off nothing races. A rule does not know the values of indices: it refuses the
    # products of complex numbers, and orders all else.
    assert verdicts(each_once, COMPLEX) == verdicts(each_once) == verdicts(zero) == []
    with impl.deterministic():
        (refused,) = impl.audit(each_once)(COMPLEX).findings
        with pytest.raises(RuntimeError, match="scatter_mul has no deterministic"):
            impl.testing.lower(each_once, COMPLEX)
        (ordered,) = impl.audit(each_once)(X).findings
        (equal,) = impl.audit(zero)(X).findings
        lowered = impl.testing.lower(each_once, X).as_text()
    assert (refused.verdict, refused.races) == ("raises", False)
    assert (ordered.verdict, ordered.races) == ("deterministic", False)
    assert "unique_indices=True" in ordered.remedy
    assert (equal.verdict, equal.races, equal.remedy) == ("deterministic", False, None)
    assert not scatters_floats(lowered)


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME").sum()


def many(x):
    """Scatters of all kinds, alone and inside of other equations."""
    y = add(x) + x.at[INDEX].set(x[:3]) + multiply(x) + x.at[INDEX].subtract(UPDATES)
    y = lax.scan(lambda c, _: (add(c), None), y, None, length=2)[0]
    y = lax.cond(y[0] > 0, lambda: multiply(y), lambda: zero(y))
    return jax.grad(pool)(y) + jax.vmap(add)(y[None])[0] + y.at[INDEX].max(UPDATES)


def test_what_is_said_to_be_deterministic_is_lowered_without_a_race():
    off = impl.audit(many)(X)
    with impl.deterministic():
        on = impl.audit(many)(X)
        text = impl.testing.lower(many, X).as_text()
    racing = [f for f in on.findings if f.races]
    assert {f.verdict for f in on.findings} == {"deterministic"}
    assert [(f.source, f.row, f.count) for f in racing] == [
        (f.source, f.row, f.count) for f in off.select("varies")
    ]
    assert sum(f.count for f in racing) == 8
    assert '"stablehlo.scatter"' in text
    assert texts.races(text) == []
    assert "select_and_scatter" not in text


def test_every_row_that_the_mode_orders_has_a_rule():
    replaced = {primitive.name for primitive in ordered_primitives.PRIMITIVES}
    rules = spec.load()
    ordered = {
        name
        for row in rules.primitives
        if row.mode_off is not None and set(row.behaviour.values()) & {"deterministic", "raise"}
        for name in row.primitives
    }
    assert {name for name in ordered if "_" not in name.removeprefix("select_and_scatter_")} == (
        replaced
    )


def test_without_the_rules_the_mode_changes_nothing_and_the_remedy_enables_them(monkeypatch):
    impl.programs.disable()
    try:
        with impl.deterministic():
            off = impl.audit(add)(X)
            refused = impl.audit(multiply)(COMPLEX)
        plain = impl.audit(add)(X)
    finally:
        impl.programs.enable()
    assert [f.verdict for f in off.findings + refused.findings] == ["varies", "varies"]
    assert "not for JAX's own primitives" in off.mode
    for report in (off, plain):
        assert report.findings[0].remedy.startswith("Call `impl.programs.enable()`")
    monkeypatch.setattr(rules, "replacements", [])
    with impl.deterministic():
        assert "knows this release of JAX" in impl.audit(add)(X).findings[0].remedy
        monkeypatch.setenv("SAMEBITS_PROGRAMS", "0")
        (finding,) = impl.audit(add)(X).findings
    assert finding.verdict == "varies"
    assert "without SAMEBITS_PROGRAMS=0" in finding.remedy


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("params", [{}, {"jaxpr": jax.make_jaxpr(jnp.sin)(1.0)}])
def test_an_unknown_primitive_is_unknown(params, enabled):
    mine = Primitive("mine")
    mine.def_abstract_eval(lambda x, **_: x)
    with impl.deterministic(enabled):
        report = impl.audit(lambda x: mine.bind(x, **params))(X)
    (finding,) = report.findings
    assert (finding.primitive, finding.row, finding.verdict) == ("mine", None, "unknown")
    assert not report.ok
    assert "run the program twice" in finding.remedy


def test_what_no_output_needs_is_not_in_the_program():
    def program(x, index, updates):
        x.at[index].set(updates)
        kept, _ = jax.jit(lambda x: (x.at[index].add(updates), x.at[index].multiply(updates)))(x)
        return kept

    found = impl.audit(program)(jnp.ones(5), jnp.array([1, 1, 3]), jnp.ones(3)).findings
    assert [(finding.primitive, finding.count) for finding in found] == [("lax.scatter_add", 1)]


def stores(x, out):
    out[0] = x[0].astype(out.dtype)


def adds(x, out):
    @pl.when(x[0] > 0)
    def _():
        pl.triton.atomic_add(out, (0,), x[0].astype(out.dtype))


def takes_the_largest(x, out):
    pl.triton.atomic_max(out, (0,), x[0])


def swaps(x, out):
    pl.triton.atomic_xchg(out, (0,), x[0])


def locks(_, out):
    pl.triton.atomic_cas(out, 0, 1)


@pytest.mark.triton
@pytest.mark.parametrize(
    ("kernel", "shape", "dtype", "varies"),
    [
        (stores, (5,), "float32", False),
        (adds, (5,), "float32", True),
        (adds, (5,), "int32", False),
        (takes_the_largest, (5,), "float32", False),
        (swaps, (5,), "float32", True),
        (locks, (), "int32", True),
    ],
)
def test_a_kernel_varies_if_it_adds_floats_in_an_open_order(kernel, shape, dtype, varies):
    function = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, dtype))
    for enabled in (False, True):  # The mode cannot change a kernel.
        with impl.deterministic(enabled):
            assert verdicts(function) == ["varies"] * varies


def dots(x):
    return x[None] @ x[:, None]


def test_the_compiler_options_count_that_the_program_is_compiled_with(monkeypatch):
    assert verdicts(dots) == verdicts(jax.jit(dots)) == ["unknown"]
    with impl.deterministic():
        options = impl.compile_options()
        assert verdicts(jax.jit(dots)) == ["unknown"]
        assert verdicts(impl.jit(dots)) == verdicts(jax.jit(dots, compiler_options=options)) == []
        assert verdicts(impl.jit(jax.jit(dots))) == []
        assert verdicts(jax.jit(impl.jit(dots))) == ["unknown"]
    assert verdicts(jax.jit(dots, compiler_options=options)) == []
    # With the mode off impl.jit has the options of its switches, and no more.
    expected = [] if options.items() <= impl.compile_options().items() else ["unknown"]
    assert verdicts(impl.jit(dots)) == expected
    flags = " ".join(f"--{name}={str(value).lower()}" for name, value in options.items())
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert verdicts(dots) == []


def test_arguments_may_be_shapes_static_and_named():
    shape = jax.ShapeDtypeStruct((5,), np.float32)

    def program(x, count, *, kind):
        assert kind == "add"
        return x.at[INDEX[:count]].add(UPDATES[:count])

    (finding,) = impl.audit(program)(shape, 2, kind="add").findings
    assert finding.shapes == "f32[5] i32[2,1] f32[2]"
    assert impl.audit(program)(shape, 1, kind="add").findings == ()  # One update.
    jitted = jax.jit(program, static_argnums=1, static_argnames="kind")
    (finding,) = impl.audit(jitted)(shape, 2, kind="add").findings
    assert finding.shapes == "f32[5] i32[2,1] f32[2]"


def test_the_program_is_not_run_and_nothing_is_warned_of():
    def program(x):
        return jax.pure_callback(fails, jax.ShapeDtypeStruct((5,), np.float32), add(x))

    def fails(_):
        raise AssertionError

    with impl.deterministic(warn_only=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verdicts(program) == ["deterministic", "unknown"]


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (3, {}, TypeError, r"audit\(\): argument 'function' must be callable, not int"),
        (add, {"device": "npu"}, ValueError, r"'device' got 'npu'; allowed: 'cpu', 'cuda', 'tpu"),
        (add, {"level": "hlo"}, ValueError, r"'level' got 'hlo'; allowed: 'program', 'compiled'"),
    ],
)
def test_bad_arguments_are_refused(function, options, error, message):
    with pytest.raises(error, match=message):
        impl.audit(function, **options)


def test_no_profile_is_advised_for_an_op_of_another_library():
    def theirs(x):
        return impl.alert_not_deterministic("theirs", x)

    with impl.deterministic():
        (ours,) = impl.audit(lambda x: impl.cumsum(x, 0))(X).findings
        (other,) = impl.audit(theirs)(X).findings
    assert "complete" in ours.remedy
    assert other.verdict == "raises"
    assert "complete" not in other.remedy


def test_what_jax_writes_for_gradients_functions_and_sizes_has_a_row():
    def body(carry, value):
        return jax.lax.cond(value > 0, lambda: jnp.sin(carry) + value, lambda: carry * value), carry

    def of_condition(values):
        return jax.grad(lambda v: lax.scan(body, v[0], v)[1].sum())(values)

    def with_more_operands_than_its_steps(x):
        return jnp.setxor1d(x, x[:3], size=9), jnp.intersect1d(x, x[:3], size=3)

    assert impl.audit(with_more_operands_than_its_steps, device="cpu")(X).ok
    (size,) = jax.export.symbolic_shape("n")
    values = jax.ShapeDtypeStruct((size,), "float32")
    with impl.deterministic():
        assert impl.audit(of_condition)(jnp.ones(3)).ok
        assert impl.audit(lambda x: x * x.shape[0])(values).ok


def test_mutable_arrays_are_judged_as_the_values_that_they_are_lowered_as():
    def added(into, updates):
        made = jax.new_ref(X)
        jax.ref.addupdate(made, (INDEX,), updates)
        jax.ref.addupdate(into, (INDEX,), updates)
        return made[...]

    args = jax.new_ref(X), UPDATES
    assert verdicts(added, *args) == ["varies"] * 2
    with impl.deterministic():
        assert verdicts(jax.jit(added), *args) == ["deterministic"] * 2
    with impl.deterministic(guarantee="portable"):
        assert verdicts(added, *args) == []


def scoped(x):
    first = add(x)
    with impl.deterministic(False):
        return first + add(x), jnp.linalg.svd(jnp.outer(x, x), compute_uv=False)


def test_each_equation_is_judged_by_its_own_scope():
    with impl.deterministic():
        report = impl.audit(scoped)(X)
    assert [f.verdict for f in report.findings] == ["deterministic", "varies", "unknown"]
    assert [f.races for f in report.findings] == [True] * 3
    assert all("which lets it" in f.remedy for f in report.findings[1:])
    assert not report.ok
    with impl.deterministic(False):
        assert verdicts(impl.deterministic()(add)) == ["deterministic"]
        remedies = [f.remedy for f in impl.audit(scoped)(X).findings]
    assert ["which lets it" in remedy for remedy in remedies] == [False, True, True]


def test_a_scope_inside_of_calls_and_loops_is_seen():
    def inner(x):
        with impl.deterministic(False):
            return jax.jit(lambda x: lax.scan(lambda c, _: (add(c), ()), x, length=2)[0])(x)

    with impl.deterministic():
        assert verdicts(jax.grad(lambda x: inner(x).sum() + inner(x * x).sum())) == []
        assert verdicts(inner) == ["varies"]
        assert verdicts(jax.vmap(inner), X[None]) == ["varies"]


def test_a_scope_under_the_guarantee_portable_is_noted():
    with impl.deterministic(guarantee="portable"):
        report = impl.audit(scoped, device="cpu")(X)
        assert impl.audit(add)(X).notes == ()
    line = f"{HERE}:{scoped.__code__.co_firstlineno + 3}"
    assert report.notes[0].startswith("A scope has another mode at ")
    assert line in report.notes[0]
    assert report.ok, "on a CPU neither races"


AXES = ("d", "m")
MESH = AbstractMesh((4, 2), AXES, axis_types=(AxisType.Auto,) * 2)
EXPLICIT = AbstractMesh((4, 2), AXES, axis_types=(AxisType.Explicit,) * 2)
ONE = AbstractMesh((1, 1), AXES, axis_types=(AxisType.Auto,) * 2)


def shape(*spec, mesh=MESH, size=16):
    return jax.ShapeDtypeStruct((size, 8), "float32", sharding=NamedSharding(mesh, P(*spec)))


ROWS, COLUMNS, WHOLE = shape("d"), shape(None, AXES), shape()
FEW, PLAIN = shape(size=8), jnp.ones((16, 8))


def added(x):
    return x.sum(0)


def constrained(*spec):
    return lambda x: added(lax.with_sharding_constraint(x, NamedSharding(MESH, P(*spec))))


def mapped(function, inside="d", outside="d"):
    specs = {"in_specs": P(inside), "out_specs": P(outside)}
    return jax.shard_map(function, mesh=MESH, check_vma=False, axis_names={"d"}, **specs)


@jax.jit
def layer(x, w):
    return jnp.tanh(x @ w)


def step(w, x):
    body = jax.checkpoint(lambda y, _: (layer(y, w), ()))
    return (lax.cond(w[0, 0] > 0, lambda: lax.scan(body, x, length=2)[0], lambda: x) * x)[0, 0]


def scattered(x, *, unique=False):
    return jnp.zeros((16, 8)).at[jnp.array([1, 2] * 8)].add(x, unique_indices=unique)


@pytest.mark.parametrize(
    ("function", "args", "ops"),
    [
        (added, [ROWS], ["reduce_sum"]),
        (added, [COLUMNS], ["reduce_sum"]),  # XLA adds 16 rows of 1 column in another order.
        (lambda x: jnp.prod(x * 1j), [ROWS], ["reduce_prod"]),
        (lambda x: x.astype(int).sum(), [ROWS], []),
        (lambda x: jnp.sort(x, 0) + x.max(0) + jnp.argmax(x, 0) + jnp.exp(x), [ROWS], []),
        (lambda x, w: x * 2 + added(w), [ROWS, WHOLE], []),
        (lambda x: jnp.prod(added(x)), [ROWS], ["reduce_sum"]),
        (added, [shape("d", mesh=ONE)], []),
        (jax.jit(added, in_shardings=NamedSharding(MESH, P("d"))), [PLAIN], ["reduce_sum"]),
        (constrained("d"), [PLAIN], ["reduce_sum"]),
        (constrained(), [ROWS], []),
        (added, [shape(None, "m", mesh=EXPLICIT)], ["reduce_sum"]),
        (
            lambda x: added(jax.reshard(x, NamedSharding(EXPLICIT, P()))),
            [shape("d", mesh=EXPLICIT)],
            [],
        ),
        (jax.grad(step), [FEW, ROWS], ["dot_general"]),
        (lambda x, w: layer(w, w) + x[:8], [ROWS, FEW], []),
        (mapped(lambda x: lax.psum(x * 2, "d"), outside=None), [PLAIN], ["psum"]),
        (mapped(lambda x: lax.psum(x, "d"), None, None), [PLAIN], ["psum"]),
        (mapped(lambda x: x[None] * 2), [COLUMNS], []),
        (lambda x: added(mapped(jnp.tanh)(x)), [PLAIN], ["reduce_sum"]),
        (mapped(added, None, None), [ROWS], []),
        (scattered, [ROWS], ["scatter_add"]),
        (lambda x: scattered(x, unique=True), [ROWS], []),
        (lambda x: lax.reduce(x, np.float32(0), jnp.hypot, (0,)), [ROWS], ["reduce"]),
        (lambda x: lax.approx_min_k(x, 3), [ROWS], ["approx_max_k"]),
        (
            lambda x: lax.ragged_dot(x, jnp.ones((2, 8, 4)), jnp.array([8, 8])),
            [ROWS],
            ["dot_general"],
        ),
    ],
)
def test_the_note_names_what_combines_elements_that_devices_share(function, args, ops):
    for options in ({"mode": False}, {}):
        with impl.deterministic(**options):
            report = impl.audit(function, device="cpu")(*args)
        assert report.ok
        named = re.findall(r"lax\.(\w+) at ", report.notes[0]) if report.notes else []
        assert named == ops


def test_the_guarantee_decides_whether_devices_show():
    def notes(function, **options):
        return impl.audit(function, **options)(ROWS).notes

    scoped = impl.deterministic(guarantee="portable")(added)
    assert notes(scattered), "the mode is off"
    with impl.deterministic():
        assert notes(scattered) == notes(scoped) == ()
        shared, refused = notes(lambda x: lax.approx_max_k(x, 3), device="cpu")
    assert 'To do: take guarantee="portable"' in shared
    assert refused == 'guarantee="portable" refuses lax.approx_max_k: Use `jax.lax.top_k`.'
    with impl.deterministic(guarantee="portable"):
        assert notes(added) == ()
