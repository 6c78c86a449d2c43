"""The pytest plugin ``samebits``, for the tests of users: a fixture and an option.

The fixture calls ``impl.testing.assert_deterministic``. pytest imports this module in every
session, so it imports impl, and with it JAX, when a test asks for the fixture.
"""

from __future__ import annotations

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
        "it in the orders of a GPU, repeat (default) also repeats it; off checks nothing",
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
        message = None
        try:
            testing.assert_deterministic(function, *args, level=level, **options)
        except AssertionError as error:
            message = str(error)
        if message is not None:  # Here, so that pytest shows no second exception.
            pytest.fail(message, pytrace=False)

    return check
