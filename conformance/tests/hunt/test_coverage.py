"""Every primitive with a portable path has a token or a reason, and tokens write their primitives.

Tests: conformance.hunt.tokens.
"""

import collections
import tomllib
from pathlib import Path

import jax
import pytest

import conformance.hunt
import spec
from conformance.hunt import grammar, source
from conformance.hunt.prelude import derived
from conformance.hunt.settings import BASE
from conformance.hunt.tokens import TOKENS
from conformance.hunt.worker import _equations

_TABLE = tomllib.loads((Path(conformance.hunt.__file__).parent / "coverage.toml").read_text())
UNREACHED = [name for each in _TABLE["unreached"] for name in each["primitives"]]
DRAWN = {name for each in TOKENS.values() for name in each.primitives}


def test_every_primitive_with_a_path_has_a_token_or_a_reason():
    rules = spec.load()
    classes = {**rules.class_of_complex, **rules.class_of_primitive}
    portable = {name for name, each in classes.items() if each.answer != "refused"}
    assert len(UNREACHED) == len(set(UNREACHED))
    assert portable - DRAWN - set(UNREACHED) == set()
    assert set(UNREACHED) & DRAWN == set()
    assert (set(UNREACHED) | DRAWN) - set(classes) == set()


def test_tokens_take_only_dtypes_with_a_path():
    for token in TOKENS.values():
        for primitive in () if token.refused else token.primitives:
            for dtype in token.dtypes:
                answer = spec.portability(primitive, [dtype])
                assert answer is None or answer.answer != "refused", (token.name, dtype)


@pytest.mark.once
def test_tokens_write_the_primitives_that_they_name():
    written = collections.defaultdict(set)
    counts = collections.Counter()
    for index in range(170):
        program = grammar.draw(11, index, counts)
        if program.derivative != "none" or program.is_wide or source.libraries(program):
            continue
        space = {}
        exec("from conformance.hunt.prelude import *\n" + source.whole(program, BASE), space)
        function, arguments, _ = space["first"]()
        names = {name for name, _ in _equations(jax.make_jaxpr(function)(*arguments).jaxpr)}
        for equation in program.equations:
            written[equation.token] |= names
    # Another release of JAX has another name for some of them.
    other = {"copy_p", "log2", "polynomial", "remat2", "jit", "geqrf", "reduce_and", "reduce_or"}
    # JAX hides these in functions of its own, or leaves them out where they change nothing.
    other |= {"lu", "householder_product", "reshape", "concatenate", "slice", "squeeze", "split"}
    wrong = {}
    for name, names in written.items():
        missing = (
            {*TOKENS[name].primitives} - other - names - {"psum", "pmax", "pmin", "all_gather"}
        )
        if missing:
            wrong[name] = missing
    assert wrong == {}
    assert len(written) > len(TOKENS) * 0.6
    assert derived(len, "none", 1) is len
