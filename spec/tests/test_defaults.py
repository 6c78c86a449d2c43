"""The keys that a row may leave out."""

import tomllib

import pytest

import spec
from spec.defaults import completed
from spec.loader import ROOT, read_table, row_tables

PROFILES = read_table(ROOT, "profiles.toml")
DEVICES = read_table(ROOT, "devices.toml")
OWN = {"document": "profiles", "releases": ["complete"], "phrase": "Every op is deterministic"}


def complete(text):
    return completed(tomllib.loads(text), PROFILES, DEVICES)


def test_the_name_in_pytorch_is_that_of_the_op():
    assert complete('op = "sparse.mm"')["torch"] == "torch.sparse.mm"
    assert complete('op = "put"\ntorch = "torch.Tensor.put_"')["torch"] == "torch.Tensor.put_"


def test_a_row_of_our_own_profile_alone_cites_its_statement():
    own = 'op = "a"\nbehaviour = { complete = "deterministic" }\n'
    assert complete(own)["source"] == [OWN]
    notes = {"document": "notes", "releases": ["2.12"], "phrase": "A phrase"}
    cited = '[[source]]\ndocument = "notes"\nreleases = ["2.12"]\nphrase = "A phrase"'
    assert complete(own + cited)["source"] == [OWN, notes]
    assert PROFILES["complete"]["statement"].startswith(f"{OWN['phrase']}.")


@pytest.mark.parametrize(
    "behaviour",
    ['{ "torch-2.12" = "raise", complete = "deterministic" }', '{ no_profile = "raise" }', "1"],
)
def test_any_other_row_has_to_name_its_source(behaviour):
    assert "source" not in complete(f'op = "a"\nbehaviour = {behaviour}')
    assert "source" not in complete('op = "a"')


def test_a_row_of_a_device_without_platforms_is_out_of_scope():
    row = complete('device = "mps"')
    assert row["state"] == "out_of_scope"
    assert row["reason"] == spec.load().devices["mps"].reason
    assert complete('device = "cuda"') == {"device": "cuda"}
    assert complete('device = "any"') == {"device": "any"}


@pytest.mark.parametrize("text", ["op = 1", "device = []", "source = 1", "behaviour = [1]"])
def test_a_malformed_row_stays_as_it_is(text):
    assert complete(text) == tomllib.loads(text)


def test_no_row_repeats_a_default():
    for _, row in row_tables(ROOT):
        for key in ("torch", "state", "reason"):
            less = {name: value for name, value in row.items() if name != key}
            assert key not in row or completed(less, PROFILES, DEVICES).get(key) != row[key]
        assert OWN not in row.get("source", [])
