"""The pytest plugin ``samebits``, for the tests of users: two fixtures and an option.

The fixtures call ``impl.testing.assert_deterministic`` and ``assert_invariant``. pytest imports
this module in every session, so it imports impl, and with it JAX, when a test asks for a fixture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import pytest

_LEVELS = ("off", "audit", "schedules", "repeat")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.getgroup("samebits", "deterministic programs").addoption(
        "--determinism",
        choices=_LEVELS,
        default="repeat",
        help="the last check of assert_deterministic: audit reads the program, schedules also runs "
        "it in the orders of a GPU, repeat (default) also repeats it; off checks nothing. "
        "assert_invariant runs programs, so audit and off leave it out",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Says so if fewer checks are made than by default."""
    level = config.getoption("determinism")
    return None if level == "repeat" else f"samebits: --determinism={level}"


@pytest.fixture
def assert_deterministic(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Returns ``impl.testing.assert_deterministic``, up to the check of ``--determinism``."""
    from impl import testing  # noqa: PLC0415  # A session without this fixture needs no JAX.

    level: Any = request.config.getoption("determinism")

    def check(
        function: Callable[..., Any],
        *args: Any,
        device: str = "cuda",
        schedules: int = 5,
        allow: Collection[str] = (),
    ) -> None:
        __tracebackhide__ = True
        options: dict[str, Any] = {"device": device, "schedules": schedules, "allow": allow}
        assertion = functools.partial(testing.assert_deterministic, level=level, **options)
        _fail_unless(assertion, function, *args)

    return check


@pytest.fixture
def assert_invariant(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Returns ``impl.testing.assert_invariant``; ``--determinism=audit`` and ``off`` skip it."""
    from impl import testing  # noqa: PLC0415  # A session without this fixture needs no JAX.

    runs = request.config.getoption("determinism") not in {"off", "audit"}

    def check(function: Callable[..., Any], *args: Any, **axes: Any) -> None:
        __tracebackhide__ = True
        if runs:
            _fail_unless(functools.partial(testing.assert_invariant, **axes), function, *args)

    return check


def _fail_unless(assertion: Callable[..., None], *args: Any) -> None:
    """Fails the test with the message of an assertion that fails."""
    __tracebackhide__ = True
    message = None
    try:
        assertion(*args)
    except AssertionError as error:
        message = str(error)
    if message is not None:  # Here, so that pytest shows no second exception.
        pytest.fail(message, pytrace=False)
