"""Names that one file uses and another declares."""

import re

import pytest

from spec.tests._edits import add, edit, reports

INDEX_ADD = "rows/index_add.toml"
BINCOUNT = "rows/bincount.toml"
HISTC = "rows/histc.toml"

MUTATIONS = {
    "two defaults": ("profiles.toml", "default = false", "default = true", "exactly one profile"),
    "an unknown profile": (INDEX_ADD, "complete =", "total =", "R0001: the profile 'total'"),
    "an unknown order": (INDEX_ADD, '"source"', '"plane"', "R0001: the order 'plane'"),
    "an unknown document": (INDEX_ADD, '"list"', '"rumour"', "R0001: the document 'rumour'"),
    "an unknown device": (INDEX_ADD, '"cuda"', '"gpu"', "R0001: device 'gpu' is not one of"),
    "a race on a CPU": (
        INDEX_ADD,
        'device = "cpu"',
        'device = "cpu"\nmode_off = "not_guaranteed"',
        "R0002: must not have .*mode_off",
    ),
    "an active row of a device without platforms": (
        "rows/avg_pool.toml",
        'device = "mps"',
        'device = "mps"\nstate = "active"',
        "R0022: state must be out_of_scope: JAX has no MPS platform",
    ),
    "a platform of two devices": (
        "devices.toml",
        'platforms = ["cpu"]',
        'platforms = ["cpu", "rocm"]',
        "devices.toml: cuda: platforms: 'rocm' is 'cpu' already",
    ),
    "a row of a device that is like another one": (
        INDEX_ADD,
        'device = "cuda"',
        'device = "tpu"',
        "R0001: no row may name 'tpu', where rows of 'cuda' decide",
    ),
    "a device that is like an unknown one": (
        "devices.toml",
        'like = "cuda"',
        'like = "gpu"',
        "devices.toml: tpu: like: 'gpu' is not a device with rows of its own",
    ),
    "a device that is like itself": (
        "devices.toml",
        'like = "cuda"',
        'like = "tpu"',
        "devices.toml: tpu: like: 'tpu' is not a device with rows of its own",
    ),
    "an untried platform that the device lacks": (
        "devices.toml",
        "untried = { rocm",
        "untried = { metal",
        "devices.toml: cuda: untried: \\['metal'\\] are no platforms of it",
    ),
    "a listing without a source": (INDEX_ADD, '"1.10", ', "", "R0001: no source says that torch-1"),
    "a fill from the wrong document": (
        "rows/empty.toml",
        '"fill"\nreleases',
        '"list"\nreleases',
        "cite the document 'fill'",
    ),
    "a listing in the code alone": (
        INDEX_ADD,
        'document = "list"',
        'document = "code"',
        "R0001: .* cite the document 'list' or 'notes' of release",
    ),
    "an unknown fact": (BINCOUNT, "{ weights", "{ weight", "the fact 'weight' is not in facts"),
    "a fact of the wrong type": (BINCOUNT, "weights = true", "weights = 1", "allowed: bool"),
    "an unknown choice": (HISTC, 'dtype = "floating"', 'dtype = "float"', "erratum: .*got 'float'"),
    "an unknown document of an erratum": (HISTC, '"binary"', '"rumour"', "document 'rumour'"),
    "a test without English": (
        "rows/pad.toml",
        "spatial_ndim = 1",
        "spatial_ndim = { min = 1 }",
        "no English for 'min'",
    ),
    "an unknown fact of an order": (
        "orders.toml",
        "unique_indices = true",
        "apart = true",
        "orders.toml: source: order_free_when: the fact 'apart'",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_reported(root, name):
    file, old, new, expected = MUTATIONS[name]
    edit(root / file, old, new)
    assert re.search(expected, "\n".join(reports(root)))


def test_rows_of_an_op_are_in_one_file(root):
    add(root, "index_add", "bincount", "torch.bincount", "cuda")
    assert re.search("the rows of 'bincount' are in bincount.toml", "\n".join(reports(root)))
