"""Alerts: given when a program is lowered for the device, and at every eager call."""

import contextlib
import warnings
from email.message import Message
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._mode.alert import tracker
from impl.testing import emulate, lower
from impl.tests.support.programs import HAS_KERNELS, kernels, scatters_floats, user_module

X = np.array([3.0, 1.0, 2.0], np.float32)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
PLACES = np.array([[0, 1, 1]])


def second(x):
    """Raises on CUDA in the profile torch-1.10."""
    return impl.kthvalue(x, 2).values


def refuses(caller="kthvalue CUDA"):
    return pytest.raises(
        RuntimeError, match=f"^{caller} does not have a deterministic implementation"
    )


@contextlib.contextmanager
def recorded_warnings():
    """Records every UserWarning inside; deprecations of JAX are ignored."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield caught


@pytest.fixture
def old():
    impl.use_deterministic_algorithms(True, profile="torch-1.10")


@pytest.fixture
def old_warn_only():
    impl.use_deterministic_algorithms(True, warn_only=True, profile="torch-1.10")


@pytest.mark.parametrize("warn_only", [False, True])
def test_the_message_names_the_profile_the_row_and_the_ways_out(warn_only):
    with impl.deterministic(warn_only=warn_only, profile="torch-1.10"):
        if warn_only:
            with recorded_warnings() as caught:
                lower(second, X)
            assert [w.category for w in caught] == [UserWarning]
            text = str(caught[0].message)
        else:
            with refuses() as error:
                lower(second, X)
            text = str(error.value)
    assert text.startswith("kthvalue CUDA does not have a deterministic implementation")
    call = "'impl.use_deterministic_algorithms(True, warn_only=True)'"
    own = (
        (call,) if warn_only else ("'impl.use_deterministic_algorithms(True)'", "'warn_only=True'")
    )
    for part in (
        *own,
        "in the profile 'torch-1.10' (row R0113)",
        "'with impl.deterministic(False):'",
        "'profile=\"complete\"'",
        "To ask for one, open an issue at the tracker of samebits",
    ):
        assert part in text


#: New functions: JAX lowers a function once, and a second time gives no warning.
FUNCTIONS = {
    "op": lambda x: second(x) + 0,
    "jit": lambda x: jax.jit(second)(x) + 0,
    "grad": jax.grad(second),
    "jit grad": jax.jit(jax.grad(second)),
    "vmap": jax.vmap(lambda a: second(a * jnp.asarray(X))),
    "checkpoint": jax.checkpoint(second),
    "jvp": lambda x: jax.jvp(second, (x,), (x,)),
    "scan": lambda x: jax.lax.scan(lambda c, _: (c + second(x), None), 0.0, None, 2),
    "_bincount_cuda": lambda x: impl.bincount(np.array([0, 1, 1]), x),
    "scatter_add_cuda_kernel": lambda x: impl.scatter_add(x[None], 1, PLACES, x[None]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lowering_for_cuda(name):
    function, caller = FUNCTIONS[name], name if "cuda" in name else "kthvalue CUDA"
    with impl.deterministic(profile="torch-1.10"):
        with refuses(caller):
            lower(function, X)
        with refuses(caller):
            lower(function, X, platform="rocm")
        lower(function, X, platform="cpu")
        with impl.deterministic(False):
            lower(function, X)
    with (
        impl.deterministic(warn_only=True, profile="torch-1.10"),
        pytest.warns(UserWarning, match=f"^{caller} does"),
    ):
        lowered = lower(function, X)
    if HAS_KERNELS:
        text = lowered.as_text()
        assert kernels(lowered) or scatters_floats(text) or "stablehlo.sort" in text
    with impl.deterministic(profile="complete"):
        lower(function, X)


@pytest.mark.usefixtures("old")
def test_an_emulated_cpu_raises_at_every_call():
    with emulate("cuda"):
        for _ in range(3):
            with refuses():
                second(X)
            with refuses():
                jax.jit(second)(X)
    assert second(X) == 2


@pytest.mark.usefixtures("old_warn_only")
def test_an_emulated_cpu_warns_at_every_eager_call():
    with emulate("cuda"), recorded_warnings() as caught:
        for number in range(1, 4):
            assert second(X) == 2
            assert len(caught) == number
        assert jax.vmap(second)(np.stack([X, X])).tolist() == [2, 2]
        assert len(caught) == 4
    assert {w.category for w in caught} == {UserWarning}


@pytest.mark.usefixtures("old_warn_only")
def test_a_compiled_call_warns_when_it_is_lowered():
    jitted = jax.jit(lambda x: second(x) + 0)
    with emulate("cuda"), recorded_warnings() as caught:
        assert jitted(X) == 2
        assert caught
        jitted(X)  # JAX 0.12 lowers the first program of a process twice.
        number = len(caught)
        assert jitted(X) == 2
        assert len(caught) == number
        assert jitted(MATRIX).tolist() == [1, 4]
        assert len(caught) == number + 1


@pytest.mark.parametrize(
    "call",
    [
        "second(X)",
        "jax.jit(second)(X)",
        "jax.vmap(second)(X[None])",
        "jax.grad(second)(X)",
        "jax.jit(jax.grad(second))(X)",
        "impl.testing.lower(second, X)",
        "jax.lax.scan(lambda c, x: (c, second(x)), 0, X[None])",
        "impl.alert_not_deterministic('theirs', X)",
    ],
)
@pytest.mark.usefixtures("old_warn_only")
def test_the_warning_points_at_the_users_line(call):
    module = user_module(
        "import jax, impl\n"
        "import numpy as np\n"
        "X = np.array([3.0, 1.0, 2.0], np.float32)\n"
        "def second(x):\n"
        "    return impl.kthvalue(x, 2).values\n"
        "def run():\n"
        f"    {call}\n"
    )
    with emulate("cuda"), recorded_warnings() as caught:
        module.run()
    assert caught
    # An eager op names the user's innermost line; a compiled program, the line that calls it.
    assert {(w.filename, w.lineno in (5, 7)) for w in caught} == {("user_program.py", True)}


@pytest.mark.usefixtures("old_warn_only")
def test_a_warning_filter_of_the_user_applies():
    with emulate("cuda"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="kthvalue CUDA"):
            second(X)


# Alerts of a pullback.


@pytest.mark.usefixtures("old")
def test_a_backward_row_does_not_touch_the_forward_pass():
    def taken(x):
        return impl.gather(x, 0, PLACES)

    assert kernels(lower(taken, MATRIX)) == set()
    lower(lambda x: jax.jvp(taken, (x,), (x,)), MATRIX)
    with emulate("cuda"):
        assert taken(MATRIX).tolist() == [[0, 4, 5]]
    with refuses("scatter_add_cuda_kernel"):
        lower(jax.grad(lambda x: taken(x).sum()), MATRIX)
    with emulate("cuda"), refuses("scatter_add_cuda_kernel"):
        jax.grad(lambda x: taken(x).sum())(MATRIX)
    assert jax.grad(lambda x: taken(x).sum())(MATRIX).tolist() == [[1, 0, 0], [0, 1, 1]]


@pytest.mark.usefixtures("old")
def test_a_backward_row_orders_the_pullback_alone():
    def rows(x):
        return impl.index_select(x, 0, PLACES[0])

    assert kernels(lower(rows, MATRIX)) == set()
    assert kernels(lower(jax.grad(lambda x: rows(x).sum()), MATRIX)) == {"scatter_add_runs"}
    # The row of gather depends on the number of dimensions: of one, it does not raise.
    lowered = lower(jax.grad(lambda x: impl.gather(x, 0, PLACES[0]).sum()), X)
    assert kernels(lowered) == {"scatter_add_runs"}


def test_a_pullback_goes_by_the_mode_of_its_forward_pass():
    def taken(x):
        return impl.gather(x, 0, PLACES)

    with emulate("cuda"):
        with impl.deterministic(profile="torch-1.10"):
            out, pullback = jax.vjp(taken, MATRIX)
        with refuses("scatter_add_cuda_kernel"):
            pullback(out)
        out, pullback = jax.vjp(taken, MATRIX)
        with impl.deterministic(profile="torch-1.10"):
            assert pullback(jnp.ones_like(out))[0].tolist() == [[1, 0, 0], [0, 1, 1]]


@pytest.mark.usefixtures("old_warn_only")
def test_a_warning_of_a_pullback_and_of_another_authors_op():
    gradient = jax.grad(lambda x: impl.gather(x, 0, PLACES).sum())
    with emulate("cuda"), pytest.warns(UserWarning, match="scatter_add_cuda_kernel") as caught:
        assert gradient(MATRIX).tolist() == [[1, 0, 0], [0, 1, 1]]
    assert len(caught) == 1
    with emulate("cuda"), pytest.warns(UserWarning, match="^their_op does not") as caught:
        assert op_of_an_author(X).tolist() == [6, 2, 4]
    assert len(caught) == 1


# The alert for authors of other ops.


def op_of_an_author(x, **options):
    return impl.alert_not_deterministic("their_op", x, **options) * 2


def test_alert_not_deterministic_raises_under_any_profile():
    assert op_of_an_author(X).tolist() == [6, 2, 4]
    lower(op_of_an_author, X)
    for profile in ("torch-1.10", "complete"):
        with impl.deterministic(profile=profile):
            assert op_of_an_author(X).tolist() == [6, 2, 4]
            for function in (
                op_of_an_author,
                jax.value_and_grad(lambda x: op_of_an_author(x).sum()),
                jax.vmap(op_of_an_author),
            ):
                with refuses("their_op") as error:
                    lower(function, X)
            with emulate("cuda"), refuses("their_op"):
                op_of_an_author(X)
    assert "row" not in str(error.value)
    assert "or pass 'warn_only=True'" in str(error.value)
    assert "complete" not in str(error.value)


@pytest.mark.usefixtures("old")
def test_the_transpose_of_an_alert_is_an_alert():
    transposed = jax.linear_transpose(op_of_an_author, X)
    assert transposed(jnp.ones_like(X))[0].tolist() == [2, 2, 2]
    with refuses("their_op"):
        lower(transposed, X)
    with impl.deterministic(profile="torch-2.12"), refuses("cumsum_cuda_kernel"):
        lower(jax.linear_transpose(lambda x: impl.cumsum(x, 0), X), X)


@pytest.mark.usefixtures("old")
def test_alert_not_deterministic_names_its_platforms():
    with refuses("their_op"):
        op_of_an_author(X, platforms=("cpu",))
    lower(lambda x: op_of_an_author(x, platforms=("cpu",)), X)
    with emulate("cuda"):
        assert op_of_an_author(X, platforms=("rocm", "cpu")).tolist() == [6, 2, 4]
        assert op_of_an_author(X, platforms=()).tolist() == [6, 2, 4]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ([1.0], {}, TypeError, "argument 'x' must be a jax.Array or a NumPy array, not list"),
        (None, {}, TypeError, "not NoneType"),
        (X, {"platforms": ("gpu",)}, ValueError, r"'platforms' got \['gpu'\]; allowed are \['cpu'"),
        (X, {"platforms": ("cuda", "mps")}, ValueError, r"got \['mps'\]"),
        (X, {"platforms": "cuda"}, ValueError, "'platforms' got"),
    ],
)
def test_alert_not_deterministic_checks_its_arguments(enabled, x, options, error, message):
    with impl.deterministic(enabled), pytest.raises(error, match=message):
        op_of_an_author(x, **options)


HOME, ISSUES = "Home, https://a.example", "Issues, https://a.example/issues"


@pytest.mark.parametrize(
    ("urls", "name"),
    [
        (None, "the tracker of samebits"),  # A checkout that is not installed.
        ((), "the tracker of samebits"),
        ((HOME,), "the tracker of samebits"),
        ((HOME, ISSUES), "the tracker of samebits, https://a.example/issues"),
    ],
)
def test_the_tracker_is_the_address_of_issues(monkeypatch, request, urls, name):
    def entries(package):
        if urls is None:
            raise metadata.PackageNotFoundError(package)
        message = Message()
        for url in urls:
            message["Project-URL"] = url
        return message

    request.addfinalizer(tracker.cache_clear)
    tracker.cache_clear()
    monkeypatch.setattr(metadata, "metadata", entries)
    assert tracker() == name
