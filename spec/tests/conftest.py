"""A small spec that a test may break, and helpers that break it."""

import shutil
from pathlib import Path

import pytest

from spec import loader
from spec.check import ledger, locks, versions
from spec.tests._state import restored_state as restored_state

#: One file of each kind of row, so that a check takes a moment.
FAMILIES = (
    "avg_pool",
    "backends",
    "bincount",
    "empty",
    "histc",
    "index_add",
    "index_reduce",
    "jax/opaque",
    "jax/sorting",
    "kthvalue",
    "notes",
    "pad",
    "put",
    "random",
)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The folder of a spec with few families; copy it before you change it."""
    source, folder = Path(str(loader.ROOT)), tmp_path_factory.mktemp("small") / "spec"
    (folder / "rows" / "jax").mkdir(parents=True)
    for file in (*source.glob("*.toml"), source / "CHANGELOG.md"):
        shutil.copy(file, folder)
    for family in FAMILIES:
        shutil.copy(source / "rows" / f"{family}.toml", folder / "rows" / f"{family}.toml")
    issued = {row["id"]: row["op"] for _, row in loader.row_tables(folder)}
    ledger.write(folder / "ids.toml", {}, issued)
    locks.write(folder / "locks.toml", loader.read(folder))
    versions.write(folder, loader.read(folder), "same")
    return folder


@pytest.fixture
def root(small, tmp_path):
    """A copy of the small spec, of this test alone."""
    return shutil.copytree(small, tmp_path / "spec")
