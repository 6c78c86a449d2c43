"""A small project and mutants of it."""

import json

from conformance.lab.mutants.mutant import Mutant

THING = """
def half(number):
    return number / 2


def begin():
    pass
"""
TEST = """
import pytest
import thing


@pytest.fixture
def begun():
    thing.begin()


def test_begun(begun):
    pass


def test_half():
    assert thing.half(4) == 2


def test_nothing():
    pass
"""
ENTRY = {
    "name": "a-b",
    "why": "b",
    "file": "thing.py",
    "find": "number / 2",
    "replace": "number * 2",
    "run": "pytest test_thing.py",
}


def mutant(**given):
    return Mutant(**ENTRY | given)


def toml(*entries):
    return "\n".join(
        "[[mutant]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
        for entry in entries
    )
