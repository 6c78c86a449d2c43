"""The engines of a CPU, on which the tests of exact results run."""

import pytest

from impl._native import library, scope


# impl/tests/native compares the calls of the native engine with the same oracles.
@pytest.fixture(params=["float64", pytest.param("native", marks=pytest.mark.once)])
def engine(request):
    """Traces the functions of impl._exact for an engine; the native one has no float64."""
    is_native = request.param == "native"
    if is_native and not library.is_available():
        pytest.skip(str(library.problem()))
    with scope.within(int(is_native)):
        yield request.param
