"""What one release of PyTorch is expected to do under the profile of another."""

import pytest

from conformance import documents
from conformance.cells import cells


def cell(op, sample, profile, device="cuda", direction="forward"):
    (found,) = [
        one
        for one in cells()
        if (one.op, one.sample.name, one.profile, one.device, one.direction)
        == (op, sample, profile, device, direction)
    ]
    return found


@pytest.mark.parametrize(
    ("of", "release", "behaviour", "why"),
    [
        # As listed: nothing lies between the profile's documents and the release's.
        (("index_add", "floating", "torch-2.12"), "2.13", "deterministic", None),
        (("put", "written", "torch-1.10", "cpu"), "2.13", "raise", None),
        (("cumsum", "floating", "torch-2.12"), "2.5", "raise", None),
        # The documents around the release say something else than the profile's.
        (("empty", "floating", "torch-1.10", "cpu"), "2.13", "fill", "The documents of 2.12"),
        (("kthvalue", "floating", "torch-1.10"), "2.13", None, "The documents of 2.12"),
        (("empty", "floating", "torch-2.12", "cpu"), "1.10.2", None, "The documents of 1.10"),
        # An erratum that holds by then, and one that did not yet.
        (("cumsum", "floating", "torch-2.12"), "2.6.0+cu124", "deterministic", "Erratum of R0059"),
        (("new_empty", "floating", "torch-2.15", "cpu"), "2.13", "fill", "Erratum of R0074"),
        (("new_empty", "floating", "torch-2.12", "cpu"), "2.0", None, None),
        # Errata that speak of these calls alone, so that the others do nothing.
        (("histc", "integer", "torch-2.12"), "2.13", None, "Erratum of R0091"),
        (("histc", "floating", "torch-2.12"), "2.13", "raise", None),
        # What is listed more narrowly than the row of an erratum stays.
        (("scatter_reduce", "sum_floating", "torch-2.15"), "2.15", "deterministic", None),
        (("scatter_reduce", "prod_floating", "torch-2.15"), "2.15", "raise", None),
        (("scatter_reduce", "amin_integer", "torch-2.15"), "2.15", None, "Erratum of R0176"),
        # A row of an old release says nothing of a new one, nor does its erratum.
        (("mm", "dense, CUBLAS_WORKSPACE_CONFIG=", "torch-1.10"), "2.13", None, "The documents"),
    ],
)
def test_what_is_expected(of, release, behaviour, why):
    found = documents.expected(cell(*of), release)
    assert found.behaviour == behaviour
    assert (found.why or "").startswith(why or "")
    assert (found.why is None) is (why is None)


def test_a_report_tells_what_is_listed_and_what_was_expected_instead():
    seen = documents.seen(cell("cumsum", "floating", "torch-2.12"), "2.13")
    assert (seen.listed, seen.behaviour) == ("raise", "deterministic")
    assert seen.about["behaviour"] == "raise"
    assert seen.about["detail"].startswith("deterministic; Erratum of R0059: ")
    same = cell("index_add", "floating", "torch-2.12")
    assert documents.seen(same, "2.13") is same
