"""The behaviour to expect of one release of PyTorch under the profile of another."""

import pytest

from conformance.suite import releases
from conformance.suite.cells import cells


def cell(op, sample, profile, device="cuda", direction="forward"):
    (match,) = [
        c
        for c in cells()
        if (c.op, c.sample.name, c.profile, c.device, c.direction)
        == (op, sample, profile, device, direction)
    ]
    return match


@pytest.mark.parametrize(
    ("of", "release", "behaviour", "reason"),
    [
        # As listed: the documents did not change between the profile's release and this one.
        (("index_add", "floating", "torch-2.12"), "2.13", "deterministic", None),
        (("put", "written", "torch-1.10", "cpu"), "2.13", "raise", None),
        (("cumsum", "floating", "torch-2.12"), "2.5", "raise", None),
        # The documents around the release differ from the documents of the profile.
        (("empty", "floating", "torch-1.10", "cpu"), "2.13", "fill", "The documents of 2.12"),
        (("kthvalue", "floating", "torch-1.10"), "2.13", None, "The documents of 2.12"),
        (("empty", "floating", "torch-2.12", "cpu"), "1.10.2", None, "The documents of 1.10"),
        # Errata that hold by then, and one that did not hold yet.
        (("cumsum", "floating", "torch-2.12"), "2.6.0+cu124", "deterministic", "Erratum of R0059"),
        (("new_empty", "floating", "torch-2.15", "cpu"), "2.13", "fill", "Erratum of R0074"),
        (("new_empty", "floating", "torch-2.12", "cpu"), "2.0", None, None),
        # An erratum about some calls, so that the mode does not affect other calls.
        (("histc", "integer", "torch-2.12"), "2.13", None, "Erratum of R0091"),
        (("histc", "floating", "torch-2.12"), "2.13", "raise", None),
        # A call stays as listed if a narrower row than the row of an erratum lists it.
        (("scatter_reduce", "sum_floating", "torch-2.15"), "2.15", "deterministic", None),
        (("scatter_reduce", "prod_floating", "torch-2.15"), "2.15", "raise", None),
        (("scatter_reduce", "amin_integer", "torch-2.15"), "2.15", None, "Erratum of R0176"),
        # An erratum of one device.
        (("take", "2d", "torch-2.12", "cuda", "backward"), "2.13", "raise", "Erratum of R0183"),
        (("take", "2d", "torch-2.12", "cpu", "backward"), "2.13", None, None),
        # An erratum that ended.
        (("mm", "sparse", "torch-1.10"), "2.9", None, "Erratum of R0137"),
        (("mm", "sparse", "torch-1.10"), "2.10", "raise", None),
        # An erratum of calls that no fact describes tells the suite nothing.
        (("empty", "floating", "torch-2.12", "cpu"), "2.13", "fill", None),
        # Neither a row of an old release nor its erratum is about a new release.
        (("mm", "dense, CUBLAS_WORKSPACE_CONFIG=", "torch-1.10"), "2.13", None, "The documents"),
    ],
)
def test_what_is_expected(of, release, behaviour, reason):
    expected = releases.expected(cell(*of), release)
    assert expected.behaviour == behaviour
    assert (expected.reason or "").startswith(reason or "")
    assert (expected.reason is None) is (reason is None)


@pytest.mark.parametrize(
    ("of", "release", "caller"),
    [
        (("histc", "floating", "torch-1.10"), "1.10", "_histc_cuda"),
        (("histc", "floating", "torch-1.10"), "2.13", "_histc_cuda with floating point input"),
        (("histc", "floating", "torch-2.12"), "2.5", "_histc_cuda"),
        (("nanmedian", "floating", "torch-2.12"), "2.13", "median CUDA with indices output"),
        (("mm", "dense, CUBLAS_WORKSPACE_CONFIG=", "torch-1.10"), "1.10", None),
        (("index_add", "floating", "torch-2.12"), "2.13", None),
    ],
)
def test_the_caller_is_that_of_the_release(of, release, caller):
    assert releases.for_release(cell(*of), release).caller == caller


def test_a_report_tells_what_is_listed_and_what_was_expected_instead():
    changed = releases.for_release(cell("cumsum", "floating", "torch-2.12"), "2.13")
    assert (changed.listed, changed.behaviour) == ("raise", "deterministic")
    assert changed.about["behaviour"] == "raise"
    assert changed.about["detail"].startswith("deterministic; Erratum of R0059: ")
    same = cell("index_add", "floating", "torch-2.12")
    assert releases.for_release(same, "2.13") is same
