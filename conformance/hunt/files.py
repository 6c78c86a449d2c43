"""Writes a finding as a file that runs alone, and exits with 1 while the fault is there.

The file has the finding as a value, which the hunt's own oracle judges again, and the program as
the workers run it. Of a finding about bits, it has the program in both settings::

    def first():
        def program(v0):
            v1 = lax.cumsum(v0, 1, reverse=True)
            return (v1, )
        ...

    $ python found/bits_51.py; echo $?
    results 0 have other bits
    1
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

from conformance.hunt import checks, source
from conformance.hunt.checks import Finding
from conformance.hunt.crew import ROOT, Crew, Kind, default_kinds
from conformance.hunt.settings import base_of

_TEXT = '''"""A finding of the kind `{kind}` (conformance/hunt/checks.py): {setting}.

{detail}

Primitives: {primitives}.
Suspected rules: {rules}.

Python runs this file: it needs jax and samebits.{environment}
The exit status is 1 while the fault is there, and 0 after it is mended.
"""

import sys

from conformance.hunt import files
from conformance.hunt.checks import Finding
from conformance.hunt.prelude import *
from conformance.hunt.program import Aval, Equation, Input, Program
from conformance.hunt.settings import Setting

{program}

FINDING = {finding!r}

if __name__ == "__main__":
    sys.exit(files.again(FINDING, {plant!r}))
'''


def text(finding: Finding, kinds: tuple[Kind, ...]) -> str:
    """Returns the text of the file of a finding, whose workers have some options."""
    program, setting, kind = finding.program, finding.setting, kinds[finding.setting.worker]
    environment = ""
    if kind.python != kinds[0].python:
        environment = "\nOTHER_PYTHON names an interpreter with another release of JAX."
    functions = [source.whole(program, setting, exempt=finding.mark == "sums")]
    if finding.kind == "bits":
        functions += ["", source.function(program, base_of(setting, program), "second")]
    return _TEXT.format(
        kind=finding.kind,
        setting=setting,
        detail=finding.detail.replace("\\", "/").replace('"""', "'''")[:600],
        primitives=", ".join(finding.primitives) or "of several equations",
        rules="; ".join(suspected(finding.primitives)) or "none of a single primitive",
        environment=environment,
        program="\n".join(functions),
        finding=finding,
        plant=str(kind.plant.absolute()) if kind.plant else "",
    )


def again(finding: Finding, plant: str) -> int:
    """Judges a finding once more, and returns the exit status of its file."""
    others = [os.environ.get("OTHER_PYTHON", sys.executable)] * (finding.setting.worker - 1)
    with Crew(default_kinds(others, Path(plant) if plant else None)) as crew:
        new = checks.again(crew, finding)
    print(new.detail if new else "the fault is not there")
    return int(new is not None)


def suspected(primitives: list[str]) -> list[str]:
    """Returns the file and the function of the rule of each primitive."""
    from impl import _portable  # noqa: PLC0415  # The parent needs JAX for a finding alone.
    from impl._portable.rules import RULES  # noqa: PLC0415  # As above.

    del _portable
    rules = []
    for name in primitives:
        rule = RULES.get(name)
        function = rule and (rule.compute or rule.of_complex or rule.params)
        function = getattr(function, "func", function)
        if function is None or not inspect.isfunction(function):
            continue
        file = Path(inspect.getsourcefile(function) or "").resolve()
        short = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name
        rules.append(f"{name}: {function.__name__} in {short}")
    return rules
