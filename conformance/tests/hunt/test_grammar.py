"""Programs are a function of the seed, and reach every token, which reach every primitive.

Tests: conformance.hunt.grammar, conformance.hunt.pool, conformance.hunt.tokens,
conformance.hunt.values.
"""

import collections
import hashlib
import itertools
import tomllib
from fractions import Fraction
from pathlib import Path

import jax
import numpy as np
import pytest

import conformance.hunt
import spec
from conformance.hunt import grammar, settings, source, values
from conformance.hunt.pool import WEIGHTS, Dice
from conformance.hunt.prelude import derived
from conformance.hunt.program import Aval
from conformance.hunt.settings import BASE
from conformance.hunt.tokens import TOKENS
from conformance.hunt.worker import _equations
from conformance.tests.hunt.examples import drawn
from spec import oracles

pytestmark = pytest.mark.once


def test_a_seed_gives_the_same_programs_and_settings_on_every_machine():
    programs = drawn(3, 20)
    assert programs == drawn(3, 20)
    assert programs != drawn(4, 20)
    texts = [repr(each) for each in programs]
    texts += [str(settings.draw(Dice(f"3 {i}"), each, 3)) for i, each in enumerate(programs)]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    # A change of the grammar changes it, and a NumPy with other streams. Python and JAX must not.
    assert digest == "31c4e7b0c3ee9ad3"


def test_bundles_have_independent_equations_and_new_arguments():
    families = set()
    for index in range(40):
        each = grammar._bundle(Dice(f"7 {index}"), collections.Counter(), [])
        assert len(each.equations) >= 2
        operands = [v for equation in each.equations for v in equation.operands]
        assert max(operands) < each.primals
        assert len(set(operands)) == len(operands)
        (family,) = {TOKENS[equation.token].family for equation in each.equations}
        families.add(family)
    assert families == {token.family for token in TOKENS.values()} - {""}


def test_products_of_chains_lose_more_than_half_of_a_bound_of_their_terms():
    aval = Aval((40, 16), "float32")
    a, b = (values.draw(Dice(f"1 {i}"), aval, "chains").values().astype(np.float64) for i in (0, 1))
    terms = a * b / abs(a[0, 0] * b[0, 0])  # All may be scaled.
    chain = np.zeros(40)
    for column in terms.T:
        chain = chain + column
    lost = np.array(
        [
            float(sum(map(Fraction, row)) - Fraction(end))
            for row, end in zip(terms, chain, strict=True)
        ]
    )
    assert (lost > 0.5 * 16 * 2.0**-53).all()
    middles = np.abs(chain - 1 - 2.0**-24)
    assert ((middles > 0) & (middles < lost)).any()


def test_ties_and_spoiled_lines_have_sums_that_float64_rounds_twice():
    for kind, dtype in itertools.product(("ties", "spoiled"), ("float32", "bfloat16")):
        lines = [values.draw(Dice(f"2 {i}"), Aval((16,), dtype), kind).values() for i in range(60)]
        right = [oracles.nearest_running(each) for each in lines]
        with np.errstate(invalid="ignore"):
            plain = [np.cumsum(each.astype(np.float64)).astype(each.dtype) for each in lines]
        is_number = [np.isfinite(each.astype(np.float32)) for each in right]
        wrong = [((a != b) & c).any() for a, b, c in zip(right, plain, is_number, strict=True)]
        assert sum(wrong) > 15
        if kind == "spoiled":
            has_nan = [np.isnan(each.astype(np.float32)).any() for each in lines]
            assert sum(map(np.logical_and, wrong, has_nan)) > 5


def test_scales_keep_bits_and_range():
    scales = set()
    for index in range(60):
        each = values.draw(Dice(f"4 {index}"), Aval((3,), "float32"), "even").values()
        scales.add(float(abs(each[0])))
        assert len({*np.abs(each).tolist()}) == 1
    assert scales == {2.0**each for each in values._SCALES}


def test_bundles_have_fewer_settings_than_other_programs():
    programs = drawn(5, 60)
    counts = {True: [], False: []}
    for index, each in enumerate(programs):
        counts[each.is_bundle].append(len(settings.draw(Dice(f"5 {index}"), each, 3)))
    assert min(counts[False]) == 2
    assert {0, 1, 2, 3} >= {*counts[True]} >= {0, 1}


def test_every_token_is_drawn_and_each_refused_one_in_a_minute_or_two():
    programs = drawn(1, 200)
    ends = {each.equations[-1].token for each in programs[:160]}
    assert {name for name, each in TOKENS.items() if each.refused} <= ends
    assert {equation.token for each in programs for equation in each.equations} == set(TOKENS)


def test_half_of_the_settings_are_of_the_first_worker():
    for count, least in ((4, [0.4, 0.1, 0.1, 0.1]), (3, [0.4, 0.1, 0.2]), (2, [0.4, 0.4])):
        dice = Dice("workers")
        workers = collections.Counter(settings._worker(dice, count) for _ in range(1000))
        assert all(workers[number] > 1000 * part for number, part in enumerate(least))


@pytest.mark.parametrize("name", ["cholesky", "psum", "scatter_add"])
def test_only_keeps_to_programs_with_a_token_or_primitive(name):
    for each in drawn(2, 10, only=name):
        own = [TOKENS[equation.token] for equation in each.equations]
        assert any(name in token.name or name in token.primitives for token in own)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("kind", list(WEIGHTS["values"]))
def test_no_value_is_subnormal_and_kinds_have_their_borders(dtype, kind):
    drawn_values = values.draw(Dice("1"), Aval((400,), dtype), kind).values()
    parts = drawn_values.view(np.float32) if dtype == "complex64" else drawn_values
    wide = np.abs(parts.astype(np.float64))
    narrow = {"float16": np.float16, "float64": np.float64}.get(dtype, np.float32)
    least = float(np.finfo(narrow).smallest_normal)
    assert not ((wide > 0) & (wide < least)).any()
    if kind == "borders":
        assert np.isnan(wide).any()
        assert np.isinf(wide).any()
    if kind in ("borders", "zeros", "few"):
        zeros = np.signbit(parts[wide == 0])
        assert set(zeros.tolist()) == {True, False}


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
    other.add("one_minus_square")
    # JAX hides these in functions of its own, or leaves them out where they change nothing.
    other |= {"lu", "householder_product", "reshape", "concatenate", "slice", "squeeze", "split"}
    # One device has none of these.
    other |= {"psum", "psum_invariant", "pmax", "pmin", "all_gather", "reduce_scatter"}
    wrong = {}
    for name, names in written.items():
        if missing := {*TOKENS[name].primitives} - other - names:
            wrong[name] = missing
    assert wrong == {}
    assert len(written) > len(TOKENS) * 0.6
    assert derived(len, "none", 1) is len
