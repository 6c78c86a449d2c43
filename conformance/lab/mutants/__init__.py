"""Mutants: deliberate faults in copies of this repository. The tests must find each one.

The TOML files of this folder hold them, and ``nox -s mutants`` runs them:

[[mutant]]
name = "mode-ignored"                       # the fault
why = "The mode changes nothing."           # the damage to a user
file = "impl/_mode/decide.py"
find = "if not mode.enabled"                # occurs once in the file
replace = "if True"
run = "pytest impl/tests/mode/test_decide.py"    # the narrow command that must fail

A mutant replaces a piece of text and is not a patch, because a patch also holds the lines around
the fault and stops applying when one of them changes. Tools that mutate Python (mutmut, cosmic-ray,
mutatest) make many small changes by general rules. None of them makes a fault with a meaning, or a
fault in TOML.

``mutant`` reads the files, ``trial`` runs a command in a copy of the checkout, and ``test_mutants``
has a test for each mutant: pytest chooses them, shares them among processes, and reports them.
"""
