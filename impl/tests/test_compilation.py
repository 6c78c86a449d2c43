"""``impl.jit`` and ``impl.compile_options``: the options of XLA, and when they change."""

import dataclasses
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
import spec
from impl._mode import compilation, switches
from impl._mode.decide import decide
from spec.check import coherence


@pytest.fixture(autouse=True)
def _as_before():
    yield
    impl.use_deterministic_algorithms(False)
    impl.backends.cudnn.benchmark = False
    impl.backends.cudnn.deterministic = False


def counted(result=lambda x: x + 1):
    """A function that counts how often it is traced."""

    def function(x):
        function.traces += 1
        return result(x)

    function.traces = 0
    return function


def test_toggling_the_mode_compiles_again_and_toggling_back_does_not():
    function = counted()
    jitted = impl.jit(function)
    seen = []
    for mode in (False, True, False, True):
        with impl.deterministic(mode):
            assert jitted(1.0) == 2.0
        seen.append(function.traces)
    assert seen == [1, 2, 2, 2]


def test_toggling_a_switch_compiles_again():
    function = counted()
    jitted = impl.jit(function)
    jitted(1.0)
    impl.backends.cudnn.benchmark = True
    jitted(1.0)
    with impl.backends.cudnn.flags(deterministic=True):
        jitted(1.0)
    jitted(1.0)
    assert function.traces == 3


def passed_options(monkeypatch):
    """The compiler options that JAX is given, as it is given them."""
    passed = []
    plain = jax.jit

    def spy(fun, **kwargs):
        passed.append(kwargs.get("compiler_options"))
        return plain(fun, **kwargs)

    monkeypatch.setattr(jax, "jit", spy)
    return passed


def test_the_options_reach_jax(monkeypatch):
    with impl.deterministic():
        wanted = impl.compile_options()
        assert wanted
        passed = passed_options(monkeypatch)
        impl.jit(lambda x: x, compiler_options={"xla_cpu_prefer_vector_width": 128})(1.0)
    assert passed == [{"xla_cpu_prefer_vector_width": 128, **wanted}]


def test_nothing_asked_for_is_plain_jit(monkeypatch):
    impl.backends.cudnn.benchmark = True
    assert impl.compile_options() == {}
    passed = passed_options(monkeypatch)
    impl.jit(lambda x: x)(1.0)
    assert passed == [None]


def test_an_option_that_contradicts_a_row_is_refused():
    (setting,) = compilation.settings()
    other = impl.jit(lambda x: x, compiler_options={setting.option: 3})
    with pytest.raises(ValueError, match=f"{setting.option} to 3, and the row {setting.row}"):
        other(1.0)
    same = impl.jit(lambda x: x, compiler_options={setting.option: setting.value})
    assert same(1.0) == 1.0


NESTED = {
    "jit": lambda f: jax.jit(f)(1.0),
    "impl.jit": lambda f: impl.jit(f)(1.0),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), 0), 1.0, None, length=2),
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(1.0),
}


@pytest.mark.parametrize("how", NESTED)
def test_nesting_is_refused_and_says_what_to_do(how):
    def inner(x):
        return x * 2

    with pytest.raises(ValueError, match=re.escape("impl.jit(jax.grad(inner))")):
        NESTED[how](impl.jit(inner))


def test_other_errors_are_the_function_s_own():
    def wrong(_):
        raise ValueError("of its own")

    with pytest.raises(ValueError, match=r"^of its own"):
        impl.jit(wrong)(1.0)
    with pytest.raises(TypeError, match="'fun' must be callable, not int"):
        impl.jit(3)


def test_it_is_a_decorator_with_jit_s_arguments_and_works_on_methods():
    class Model:
        scale = 3

        @impl.jit(static_argnums=0)
        def __call__(self, x):
            """Says so."""
            return x * self.scale

    assert Model()(2.0) == 6.0
    assert Model.__call__.__doc__ == "Says so."
    assert impl.jit(lambda x, n: jnp.zeros(n) + x, static_argnames="n")(1.0, n=2).shape == (2,)


def test_what_jit_has_beside_a_call():
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
    assert impl.jit(lambda x: x + 1)(1) == 2


def test_a_value_that_jaxlib_refuses_is_not_taken_for_an_unknown_option(monkeypatch):
    asked = (compilation.Setting("xla_gpu_autotune_level", "often", "R9999"),)
    monkeypatch.setattr(compilation, "settings", lambda: asked)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid int32"):
        impl.compile_options()


def test_options_may_be_asked_for_while_tracing():
    compilation._refused.cache_clear()
    with impl.deterministic():
        jax.jit(lambda x: (impl.compile_options(), x)[1])(1.0)


def test_rows_that_disagree_on_an_option_are_found():
    rules = spec.load()
    (row, *_) = [row for row in rules.rows if row.options]
    name = next(iter(row.options))
    wrong = dataclasses.replace(row, id="R9999", op="other", options={name: "otherwise"})
    broken = dataclasses.replace(rules, rows=(*rules.rows, wrong))
    assert [key for key, text in coherence.findings(broken) if name in text] == ["R9999"]


def test_switches_are_checked_and_scoped():
    cudnn = impl.backends.cudnn
    assert (cudnn.benchmark, cudnn.deterministic) == (False, False)
    cudnn.benchmark = True
    with cudnn.flags(deterministic=True):
        assert (cudnn.benchmark, cudnn.deterministic) == (False, True)
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append((cudnn.benchmark, cudnn.deterministic))
        )
        thread.start()
        thread.join()
        assert seen == [(True, False)]
    assert (cudnn.benchmark, cudnn.deterministic) == (True, False)
    with pytest.raises(RuntimeError, match="set_cudnn_benchmark expects a bool, but got int"):
        cudnn.benchmark = 1
    scope = cudnn.flags(deterministic=None)
    with pytest.raises(RuntimeError, match="set_cudnn_deterministic expects a bool"), scope:
        pass
    with pytest.raises(TypeError, match="enabled"):
        cudnn.flags(enabled=True)
    assert switches.current() == switches.Switches(cudnn_benchmark=True)


def test_cudnn_deterministic_reaches_convolutions_and_nothing_else():
    x, weight = np.ones((1, 2, 5), np.float32), np.ones((3, 2, 3), np.float32)

    def lowered():
        return impl.testing.lower(impl.nn.functional.conv1d, x, weight).as_text()

    assert "stablehlo.convolution" in lowered()
    impl.backends.cudnn.deterministic = True
    assert "stablehlo.convolution" not in lowered()
    facts = {"dtype": "floating", "unique_indices": False}
    assert decide("index_add", **facts).on("cuda").path == "atomic"
    assert decide("nn.functional.conv1d", **facts).on("cpu").path == "atomic"
    with impl.deterministic():
        assert decide("index_add", **facts).on("cuda").path == "ordered"
