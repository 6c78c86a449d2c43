"""Errata and callers: releases, devices, sources, and names in alerts."""

import re

import pytest

import spec
from spec.tests._edits import edit, reports

HISTC = "rows/histc.toml"
INDEX_REDUCE = "rows/index_reduce.toml"
MUTATIONS = {
    "no source": (
        INDEX_REDUCE,
        "[[row.erratum.source]]",
        "[[row.source]]",
        "R0099: erratum.0 'source' is a required property",
    ),
    "an unknown first release": (HISTC, 'since = "2.8"', 'since = "2.88"', "erratum: '2.88' is no"),
    "an unknown release of a source": (
        HISTC,
        '"2.9", ',
        '"2.99", ',
        "source: '2.99' is not a release",
    ),
    "a last release before the first": (
        HISTC,
        'since = "2.8"',
        'since = "2.8"\nuntil = "2.2"',
        "R0091: erratum: until 2.2 is before since 2.8; swap them",
    ),
    "a device of a row for one device": (
        HISTC,
        'since = "2.8"',
        'since = "2.8"\ndevice = "cpu"',
        "R0091: erratum: device 'cpu' is not one of devices.toml, or the row is for one device",
    ),
    "an erratum that raises under no name": (
        INDEX_REDUCE,
        'caller = "index_reduce_cuda"\n',
        "",
        "R0099: erratum: it raises, and no caller is given",
    ),
    "a caller of a profile that does not raise": (
        HISTC,
        '{ "torch-1.10" = "_histc_cuda"',
        '{ complete = "_histc_cuda"',
        "R0091: caller is of the profiles",
    ),
    "a caller that does not differ": (
        HISTC,
        '"torch-1.10" = "_histc_cuda"',
        '"torch-1.10" = "_histc_cuda with floating point input"',
        "R0091: caller has the same name for all profiles",
    ),
    "a caller and a message": (
        "rows/bincount.toml",
        'caller = "_bincount_cuda"',
        'caller = "_bincount_cuda"\nmessage = "Deterministic behavior"',
        "R0023: must not have",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_is_found(root, name):
    file, old, new, problem = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(problem, "\n".join(reports(root)))


def test_every_erratum_has_a_source_and_a_known_range():
    rules = spec.load()
    order = {release: number for number, release in enumerate(rules.releases)}
    for erratum in (erratum for row in rules.rows for erratum in row.errata):
        assert erratum.sources
        assert order[erratum.since] <= order[erratum.until or rules.releases[-1]]


def test_an_erratum_is_about_the_device_of_its_row_or_one_of_them():
    (take,) = spec.load().row("R0183").errata
    assert (take.covers("cuda"), take.covers("cpu")) == (True, False)
    (index_add,) = spec.load().row("R0001").errata
    assert index_add.covers("cuda")
