"""The mode: how it is set and read, its switches, and the variables of the environment.

Tests: impl._core.modules, impl._mode.switches, impl.backends.cudnn.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import impl
import spec
from impl._mode import modes, switches
from impl._mode.decide import decide
from impl.tests.support import processes


def state():
    return (
        impl.are_deterministic_algorithms_enabled(),
        impl.is_deterministic_algorithms_warn_only_enabled(),
        impl.get_deterministic_profile(),
    )


def in_thread(function):
    """Returns the result of ``function`` in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


DEFAULT = spec.load().default_profile


def test_off_by_default_under_the_default_profile():
    assert state() == (False, False, DEFAULT)
    assert modes.Mode() == modes.Mode(enabled=False, warn_only=False, profile=DEFAULT)
    with pytest.raises(TypeError, match="mode"):
        impl.use_deterministic_algorithms()


@pytest.mark.parametrize(
    ("enabled", "options", "level"),
    [
        (False, {}, 0),
        (False, {"warn_only": True}, 0),
        (True, {"warn_only": True}, 1),
        (True, {}, 2),
    ],
)
def test_mode_and_warn_only_are_stored_independently(enabled, options, level):
    impl.use_deterministic_algorithms(True, warn_only=True)
    assert impl.use_deterministic_algorithms(enabled, **options) is None
    assert state() == (enabled, "warn_only" in options, DEFAULT)
    assert impl.get_deterministic_debug_mode() == level


@pytest.mark.parametrize("function", ["use_deterministic_algorithms", "deterministic"])
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1,), {}, r"argument 'mode' \(position 1\) must be bool, not int"),
        ((np.True_,), {}, r"argument 'mode' \(position 1\) must be bool, not numpy.bool"),
        (("portable",), {}, r"must be bool, not str; pass guarantee='portable'"),
        ((print,), {}, r"must be bool, not builtin_function_or_method; .*: @impl\.\w+\(\)"),
        ((True,), {"warn_only": 1}, "argument 'warn_only' must be bool, not int"),
        ((True,), {"profile": 2}, "argument 'profile' must be str or None, not int"),
        ((True,), {"guarantee": 2}, "argument 'guarantee' must be str or None, not int"),
        ((True, True), {}, "positional argument"),
    ],
)
def test_type_errors(function, arguments, options, message):
    impl.use_deterministic_algorithms(True, warn_only=True, profile="complete")
    # deterministic() refuses when it is called, not when it is entered.
    with pytest.raises(TypeError, match=message):
        getattr(impl, function)(*arguments, **options)
    assert state() == (True, True, "complete")


@pytest.mark.parametrize("function", ["use_deterministic_algorithms", "deterministic"])
@pytest.mark.parametrize(
    ("argument", "known"),
    [("profile", [*spec.load().profiles]), ("guarantee", ["run_to_run", "portable"])],
)
def test_an_unknown_name_is_a_value_error_that_names_the_known_ones(function, argument, known):
    with pytest.raises(ValueError, match=f"'{argument}' got 'not_guaranteed'") as error:
        getattr(impl, function)(True, **{argument: "not_guaranteed"})
    assert function in str(error.value)
    assert all(repr(name) in str(error.value) for name in known)
    assert state() == (False, False, DEFAULT)


@pytest.mark.parametrize("name", spec.load().profiles)
def test_a_profile_is_set_and_none_keeps_it(name):
    impl.use_deterministic_algorithms(True, profile=name)
    assert state() == (True, False, name)
    impl.use_deterministic_algorithms(False, profile=None)
    assert state() == (False, False, name)
    impl.set_deterministic_debug_mode(1)
    assert state() == (True, True, name)


@pytest.mark.parametrize(
    ("given", "level", "enabled", "warn_only"),
    [
        (0, 0, False, False),
        (1, 1, True, True),
        (2, 2, True, False),
        ("default", 0, False, False),
        ("warn", 1, True, True),
        ("error", 2, True, False),
        (False, 0, False, False),
        (True, 1, True, True),
    ],
)
def test_debug_modes(given, level, enabled, warn_only):
    impl.use_deterministic_algorithms(not enabled, warn_only=not warn_only)
    assert impl.set_deterministic_debug_mode(given) is None
    assert impl.get_deterministic_debug_mode() == level
    assert type(impl.get_deterministic_debug_mode()) is int
    assert state() == (enabled, warn_only, DEFAULT)


NUMBER, NAME = "expected 0, 1, or 2, but got", "expected one of `default`, `warn`, `error`, but got"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, RuntimeError, f"invalid value of debug_mode, {NUMBER} 3"),
        ("Warn", RuntimeError, f"invalid value of debug_mode, {NAME} Warn"),
        (np.True_, TypeError, "debug_mode must be str or int, but got <class 'numpy.bool"),
        (None, TypeError, "debug_mode must be str or int, but got <class 'NoneType'>"),
        (np.int64(1), TypeError, "debug_mode must be str or int, but got <class 'numpy.int64'>"),
    ],
)
def test_debug_mode_errors(given, error, message):
    impl.use_deterministic_algorithms(True, warn_only=True)
    with pytest.raises(error, match=message):
        impl.set_deterministic_debug_mode(given)
    assert state() == (True, True, DEFAULT)


def test_the_scope_nests_and_restores_after_an_exception_too():
    impl.use_deterministic_algorithms(True, warn_only=True, profile="torch-1.10")
    with impl.deterministic(profile="complete"):
        assert state() == (True, False, "complete")
        with impl.deterministic(False):
            assert state() == (False, False, "complete")
            with impl.deterministic(warn_only=True):
                assert state() == (True, True, "complete")
            assert state() == (False, False, "complete")
        assert state() == (True, False, "complete")
    assert state() == (True, True, "torch-1.10")
    with pytest.raises(KeyError, match="complete"), impl.deterministic(profile="complete"):
        raise KeyError(impl.get_deterministic_profile())
    assert state() == (True, True, "torch-1.10")


def test_as_a_decorator_it_holds_at_every_call_and_not_between():
    @impl.deterministic(warn_only=True, profile="complete")
    def decorated(depth):
        """The docstring of the function."""
        return state(), decorated(depth - 1) if depth else None

    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "The docstring of the function."
    assert state() == (False, False, DEFAULT)
    inside = (True, True, "complete")
    assert decorated(1) == (inside, (inside, None))
    assert decorated(0) == (inside, None)
    assert state() == (False, False, DEFAULT)
    in_scope = impl.deterministic()(state)
    impl.use_deterministic_algorithms(False, profile="complete")
    assert in_scope() == (True, False, "complete"), "the profile at the call"


def test_the_setter_reaches_other_threads_and_a_scope_does_not():
    impl.use_deterministic_algorithms(True, warn_only=True, profile="complete")
    assert in_thread(state) == (True, True, "complete")
    with impl.deterministic(False, profile="torch-1.10"):
        assert in_thread(state) == (True, True, "complete")


@pytest.mark.parametrize(
    "setter",
    [lambda: impl.use_deterministic_algorithms(True), lambda: impl.set_deterministic_debug_mode(2)],
    ids=["use_deterministic_algorithms", "set_deterministic_debug_mode"],
)
def test_inside_a_scope_the_setter_changes_what_others_see_and_what_holds_afterwards(setter):
    impl.use_deterministic_algorithms(False, profile="torch-1.10")
    with impl.deterministic(False, profile="complete"):
        setter()
        assert state() == (False, False, "complete")
        assert in_thread(state) == (True, False, "torch-1.10")
    assert state() == (True, False, "torch-1.10")


def test_fill_uninitialized_memory():
    settings = impl.utils.deterministic
    assert settings.fill_uninitialized_memory is True
    settings.fill_uninitialized_memory = False
    assert settings.fill_uninitialized_memory is False
    assert in_thread(lambda: settings.fill_uninitialized_memory) is False
    assert modes.fill_uninitialized_memory() is False
    for value, got in ((1, "int"), (None, "NoneType"), ("x", "str")):
        with pytest.raises(RuntimeError, match=f"expected a bool, but got {got}"):
            settings.fill_uninitialized_memory = value
    assert settings.fill_uninitialized_memory is False


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        (impl.utils.deterministic, "fill_uninitialised_memory", "'fill_uninitialized_memory'?"),
        (impl.backends.cudnn, "benchmarks", "only 'benchmark', 'deterministic'; did you mean "),
        (impl.backends.cudnn, "allow_tf32", "has no setting 'allow_tf32', only 'benchmark'"),
    ],
)
def test_an_unknown_setting_is_refused(settings, name, message):
    with pytest.raises(AttributeError, match=re.escape(message)):
        setattr(settings, name, True)
    assert not hasattr(settings, name)


def test_a_guarantee_is_set_and_none_keeps_it():
    assert impl.get_deterministic_guarantee() == "run_to_run"
    impl.use_deterministic_algorithms(True, guarantee="portable")
    impl.use_deterministic_algorithms(False)
    assert impl.get_deterministic_guarantee() == "portable"
    assert not modes.current().portable
    with impl.deterministic(guarantee="run_to_run"):
        assert impl.get_deterministic_guarantee() == "run_to_run"
        with impl.deterministic(guarantee="portable"):
            assert modes.current().portable
        assert not modes.current().portable
    impl.set_deterministic_debug_mode("error")
    assert modes.current().portable


def test_switches_are_checked_and_scoped():
    cudnn = impl.backends.cudnn
    assert (cudnn.benchmark, cudnn.deterministic) == (False, False)
    cudnn.benchmark = True
    with cudnn.flags(deterministic=True):
        assert (cudnn.benchmark, cudnn.deterministic) == (False, True)
        assert in_thread(lambda: (cudnn.benchmark, cudnn.deterministic)) == (True, False)
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
    assert decide("nn.functional.conv1d").on("cuda").row is None
    impl.backends.cudnn.deterministic = True
    assert decide("nn.functional.conv1d").on("cuda").row == "R0032"
    assert decide("index_add", dtype="floating").on("cuda").row is None
    assert decide("nn.functional.conv1d").on("cpu").row is None
    with impl.deterministic():
        assert decide("index_add", dtype="floating").on("cuda").row == "R0001"


ON = modes.Mode(enabled=True)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, modes.Mode()),
        ({"MODE": ""}, modes.Mode()),
        ({"MODE": "on"}, ON),
        ({"MODE": "1"}, ON),
        ({"MODE": "warn"}, ON._replace(warn_only=True)),
        ({"MODE": "off", "GUARANTEE": "portable"}, modes.Mode(guarantee="portable")),
        ({"MODE": "0"}, modes.Mode()),
        ({"GUARANTEE": "portable"}, ON._replace(guarantee="portable")),
        ({"PROFILE": "complete", "GUARANTEE": "run_to_run"}, ON._replace(profile="complete")),
    ],
)
def test_the_variables_are_the_arguments_of_the_call(values, expected, monkeypatch):
    for name, value in values.items():
        monkeypatch.setenv(f"SAMEBITS_{name}", value)
    modes.turn_on_by_variables()
    assert modes.current() == expected


@pytest.mark.parametrize("name", ["MODE", "GUARANTEE", "PROFILE"])
def test_another_value_is_refused(name, monkeypatch):
    monkeypatch.setenv(f"SAMEBITS_{name}", "portabel")
    message = f"the environment variable SAMEBITS_{name} is 'portabel'; allowed: '"
    with pytest.raises(ValueError, match=message):
        modes.turn_on_by_variables()
    assert modes.current() == modes.Mode()


#: The backend has not started when the mode is turned on, so that XLA reads the flags.
PROGRAM = """
import os
import jax, impl
print(impl.get_deterministic_profile())
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=3"
x = jax.numpy.ones((2, 2))
print(jax.jit(lambda x: x @ x)(x)[0, 0], jax.device_count())
print(impl.audit(jax.jit(lambda x: x @ x))(x).ok)
impl.set_xla_flags()
"""


def test_the_import_reads_the_variables_and_the_process_compiles_everything_with_the_flags():
    variables = {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "SAMEBITS_PROFILE": "complete"}
    done = processes.run("-W", "error", "-c", PROGRAM, **variables)
    assert done.stdout.split() == ["complete", "2.0", "3", "True"], done.stderr
    assert done.returncode == 0
