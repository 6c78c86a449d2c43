"""Options of compilation, and the key of jit."""

import functools
import threading
from typing import TYPE_CHECKING, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import impl
from impl._mode import compilation
from impl.tests.support.programs import kernels


def counted(result=lambda x: x + 1):
    """A function that counts how often it is traced."""

    def function(*args):
        function.traces += 1
        return result(*args)

    function.traces = 0
    return function


def test_toggling_the_mode_or_a_switch_compiles_again_and_toggling_back_does_not():
    function = counted()
    jitted = impl.jit(function)
    seen = []
    for mode in (False, True, False, True):
        with impl.deterministic(mode):
            assert jitted(1.0) == 2.0
        seen.append(function.traces)
    impl.backends.cudnn.benchmark = True
    jitted(1.0)
    with impl.backends.cudnn.flags(deterministic=True):
        jitted(1.0)
    jitted(1.0)
    assert [*seen, function.traces] == [1, 2, 2, 2, 4]


def passed_options(monkeypatch):
    """A list of the compiler options of each call of ``jax.jit``."""
    passed = []
    plain = jax.jit

    def spy(fun, **kwargs):
        passed.append(kwargs.get("compiler_options"))
        return plain(fun, **kwargs)

    monkeypatch.setattr(jax, "jit", spy)
    return passed


def test_the_options_of_the_mode_at_each_call_reach_jax(monkeypatch):
    impl.backends.cudnn.benchmark = True
    assert impl.compile_options() == {}
    with impl.deterministic():
        required = impl.compile_options()
    assert required
    passed, own = passed_options(monkeypatch), {"xla_cpu_prefer_vector_width": 128}
    jitted = impl.jit(lambda x: x + 1, compiler_options=own)
    for mode in (False, True, False):
        with impl.deterministic(mode):
            jitted(1.0)
    assert passed == [own, own | required]


def test_an_option_that_contradicts_a_row_is_refused():
    (setting,) = compilation.settings()
    other = impl.jit(lambda x: x, compiler_options={setting.option: 3})
    with pytest.raises(ValueError, match=f"{setting.option} to 3, but the row {setting.row}"):
        other(1.0)
    same = impl.jit(lambda x: x, compiler_options={setting.option: setting.value})
    assert same(1.0) == 1.0


NESTED = {
    "jit": lambda f, x: jax.jit(f)(x),
    "impl.jit": lambda f, x: impl.jit(f)(x),
    "scan": lambda f, x: jax.lax.scan(lambda c, _: (f(c), 0), x, None, length=1)[0],
    "grad": lambda f, x: jax.grad(f)(x) * x / 2,
    "remat": lambda f, x: jax.checkpoint(f)(x),
    "make_jaxpr": lambda f, x: jaxpr_as_fun(jax.make_jaxpr(f)(x))(x)[0],
    "wraps": lambda f, x: jax.jit(functools.wraps(f)(functools.partial(f)))(x),
}


@pytest.mark.parametrize("how", NESTED)
@pytest.mark.parametrize("mode", [False, True])
def test_inside_another_program_it_is_jit_without_options(how, mode, monkeypatch):
    passed = passed_options(monkeypatch)
    with impl.deterministic(mode):
        assert NESTED[how](impl.jit(lambda x: x * x), 3.0) == 9
        required = impl.compile_options()
    assert required in passed


def test_static_arguments_and_functions_are_taken_inside_the_jit_of_a_library():
    static = impl.jit(lambda x, n: jnp.zeros(n) + x, static_argnums=1)
    assert jax.jit(static, static_argnums=1)(2.0, 3).tolist() == [2, 2, 2]
    repeated = impl.jit(
        jax.jit(lambda x, n: jnp.zeros(n) + x, static_argnames="n"), static_argnames="n"
    )
    assert repeated(1.0, n=2).shape == (2,)
    inner = impl.jit(lambda model, x: model["activation"](x) * model["scale"])

    def filtered(model, x):  # As eqx.filter_jit does.
        arrays, rest = {"scale": model["scale"]}, {"activation": model["activation"]}
        return jax.jit(lambda arrays, x: inner({**arrays, **rest}, x))(arrays, x)

    model = {"activation": jnp.abs, "scale": jnp.float32(2)}
    assert filtered(model, jnp.float32(-3)) == 6
    with pytest.raises(TypeError):
        inner(model, jnp.float32(-3))


def test_options_of_the_caller_are_refused_inside_another_program():
    inner = impl.jit(lambda x: x, compiler_options={"xla_cpu_prefer_vector_width": 128})
    with pytest.raises(ValueError, match="can only be passed to top-level"):
        jax.jit(inner)(1.0)


def test_it_is_a_decorator_with_jit_s_arguments_and_works_on_methods():
    class Model:
        scale = 3

        @impl.jit(static_argnums=0)
        def __call__(self, x):
            """Says so."""
            return x * self.scale

    assert Model()(2.0) == 6.0
    assert Model.__call__.__doc__ == "Says so."
    with pytest.raises(TypeError, match="'fun' must be callable, not int"):
        impl.jit(3)
    assert impl.jit(lambda x, n: jnp.zeros(n) + x, static_argnames="n")(1.0, n=2).shape == (2,)


def test_it_has_the_methods_of_jit():
    function = counted(jnp.sum)
    jitted = impl.jit(function)
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert jitted.eval_shape(shape).shape == ()
    assert jitted.trace(shape).jaxpr.eqns
    assert jitted.lower(shape).compile()(jnp.ones(3)) == 3
    before = function.traces
    jitted.clear_cache()
    assert jitted(jnp.ones(3)) == 3
    assert function.traces > before


def test_an_unknown_option_is_left_out_and_named(monkeypatch):
    asked = (
        compilation.Setting("xla_no_such_option", 1, "R9998"),
        compilation.Setting("xla_gpu_autotune_level", 0, "R9999"),
        compilation.Setting("xla_nor_this_one", True, "R9997"),
    )
    monkeypatch.setattr(compilation, "settings", lambda: asked)
    assert impl.compile_options() == {"xla_gpu_autotune_level": 0}
    assert [one.row for one in compilation.unknown_options()] == ["R9998", "R9997"]
    named = {"xla_no_such_option": 1, "xla_nor_this_one": True}
    assert impl.testing.unknown_compile_options() == named
    assert impl.jit(lambda x: x + 1)(1) == 2


def test_options_are_read_while_tracing_and_a_value_that_jaxlib_refuses_is_an_error(monkeypatch):
    compilation._unknown.cache_clear()
    with impl.deterministic():
        jax.jit(lambda x: (impl.compile_options(), x)[1])(1.0)
    asked = (compilation.Setting("xla_gpu_autotune_level", "often", "R9999"),)
    monkeypatch.setattr(compilation, "settings", lambda: asked)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid int32"):
        impl.compile_options()


def test_types_are_kept() -> None:
    @impl.jit(static_argnames=("by",))
    def scaled(x: float, *, by: str) -> bytes:
        return f"{x}{by}".encode()

    class Model:
        @impl.jit
        def method(self, x: float) -> bytes:
            return f"{x}".encode()

    if TYPE_CHECKING:  # `nox -s lint` checks the types; a wrong argument has to be an error.
        assert_type(scaled(1.0, by="a"), bytes)
        assert_type(Model().method(1.0), bytes)
        scaled("a", by="a")  # type: ignore[arg-type]
        Model().method()  # type: ignore[call-arg]


ATOMIC: set[str] = set()
ORDERED = {"scatter_add_runs"}


INDEX, ARGUMENTS = np.array([0, 2, 2]), (jnp.zeros(3), jnp.ones(3))


def added(input, source):
    return impl.index_add(input, 0, INDEX, source)


def path(jitted):
    return kernels(impl.testing.lower(jitted, *ARGUMENTS))


def test_every_part_of_the_state_is_in_the_key():
    function = counted(added)
    jitted = jax.jit(function)

    def traced():
        jitted.trace(*ARGUMENTS)
        return function.traces

    steps = [
        lambda: impl.use_deterministic_algorithms(True),
        lambda: impl.use_deterministic_algorithms(True, warn_only=True),
        lambda: impl.use_deterministic_algorithms(True, profile="complete"),
        lambda: setattr(impl.utils.deterministic, "fill_uninitialized_memory", False),
    ]
    assert traced() == 1
    with impl.deterministic(True):
        assert traced() == 2  # As the setter, which is the next step.
    for number, step in enumerate(steps, start=2):
        step()
        assert traced() == number
        assert traced() == number
    scopes = [
        impl.testing.emulate("cuda"),
        impl.testing.emulate("cuda", lowering="xla"),
        impl.testing.emulate("rocm"),
        impl.testing.schedule(1),
        impl.testing.schedule(2),
        impl.deterministic(guarantee="portable"),
    ]
    for number, scope in enumerate(scopes, start=2 + len(steps)):
        with scope:
            assert traced() == number


def test_a_second_thread_in_its_own_scope_keeps_its_path():
    jitted = jax.jit(added)
    entered, switched = threading.Event(), threading.Event()
    seen = []

    def worker():
        with impl.deterministic(True):
            seen.append(path(jitted))
            entered.set()
            assert switched.wait(60)
            seen.append(path(jitted))
        seen.append(path(jitted))

    thread = threading.Thread(target=worker)
    thread.start()
    assert entered.wait(60)
    impl.use_deterministic_algorithms(False)
    assert path(jitted) == ATOMIC
    switched.set()
    thread.join()
    assert seen == [ORDERED, ORDERED, ATOMIC]
