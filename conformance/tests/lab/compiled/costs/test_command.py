"""The command ``python -m conformance costs``, without compiling a program."""

import argparse

import pytest

from conformance.lab.compiled import costs
from conformance.lab.compiled.costs import budgets, command
from conformance.suite.cells import ops_with_samples


def run(*arguments):
    parser = argparse.ArgumentParser()
    costs.add_options(parser)
    return costs.run(parser.parse_args(arguments))


def test_each_case_has_a_name_of_its_own_and_each_op_a_case():
    cases = list(command.cases())
    assert len(cases) == len(command.by_name())
    assert {case.op for case in cases} >= set(ops_with_samples())


def test_each_known_excess_is_of_a_case_with_that_budget():
    cases = command.by_name()
    known = budgets.known_excesses()
    assert budgets.unknown_names(known, cases) == []
    for excess in known:
        assert getattr(cases[excess.case].budget, excess.term) is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "no such case"], "no case has no such case in its name"),
        (["-n", "0"], "at least one process"),
    ],
)
def test_bad_options_are_refused(arguments, words, capsys):
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def test_the_cases_are_listed(capsys):
    assert run("--list", "-k", "index_add-1") == 0
    assert "index_add-100k-1M-1" in capsys.readouterr().out.splitlines()
