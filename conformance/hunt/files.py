"""Writes a finding as a file that runs alone, and exits with 1 while the fault is there.

The file of a finding about bits has a function for each of two settings, and compares digests::

    def first():
        def program(v0):
            v1 = lax.cumsum(v0, 1, reverse=True)
            return (v1, )
        ...

    $ python found/bits_51.py; echo $?
    first ac0471476b43985d
    second 0b12c0a2fe0f1c35
    1

If both settings have the same equations, it prints the answer of ``impl.first_difference``, too.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from conformance.hunt import checks, shrink, source
from conformance.hunt.checks import Finding
from conformance.hunt.crew import ROOT, Kind
from conformance.hunt.settings import base_of

_HEAD = '''"""{title}

{detail}

Primitives: {primitives}.
Suspected rules: {rules}.

Python runs this file alone: {environment}
The exit status is 1 while the fault is there, and 0 after it is mended.
"""
'''

_BITS = '''

def run(name, path):
    """Returns the digests of a process of one setting, which records its equations in a file."""
    kind = KINDS[name]
    python = os.environ.get("OTHER_PYTHON", sys.executable) if kind["other"] else sys.executable
    environment = {{**os.environ, "XLA_FLAGS": kind["flags"], "NPROC": kind["threads"]}}
    command = [python, __file__, name, path]
    return subprocess.check_output(command, env=environment, text=True).split()


def main():
    """Returns whether the two settings differ."""
    if sys.argv[1:]:  # A process for one setting.
        with jax.enable_x64({wide}):
            function, arguments, how = {{"first": first, "second": second}}[sys.argv[1]]()
            print(*map(digest, called(function, arguments, how)))
            if {is_one_program}:
                impl.programs.record(function, *arguments).save(sys.argv[2])
        return False
    with tempfile.TemporaryDirectory() as folder:
        paths = tuple(os.path.join(folder, name) for name in KINDS)
        outputs = [*map(run, KINDS, paths)]
        for name, digests in zip(KINDS, outputs, strict=True):
            print(name, *digests)
        differ = outputs[0] != outputs[1]
        if differ and {is_one_program}:
            print(impl.first_difference(first()[0], between=paths))
    return differ
'''

_ONE = '''

def main():
    """Returns whether the program fails, or has another value than it should."""
    with jax.enable_x64({wide}):
{body}
'''


#: The first sentence about each kind of finding.
_TITLES = {
    "bits": "Two settings of one program give other bits.",
    "value": "An equation has a wrong value.",
    "error": "A program fails that plain JAX runs.",
    "crash": "A program ends the process, and plain JAX runs it.",
    "hang": "A program does not end in time, and plain JAX runs it.",
    "gradient": "A derivative is far from plain JAX's.",
    "growth": "The lowered program grows faster than its number of equations.",
    "refusal": "A program is not refused by name.",
    "audit": "The audit's verdict is not what the lowered program shows.",
    "off": "With the mode off, the lowered program is another one than in plain JAX.",
}

#: The lines that decide whether a fault is there, by the kind and the mark of its finding, or by
#: its kind; the words in braces are facts of the finding.
_BODIES = {
    "value": """
result = called(*first())[0][{index}].item()
right, allowed = {right}, {allowed!r}
print(result, right)
if result != result or right != right:
    return (result == result) != (right == right)
signs = np.signbit(np.real(result)) != np.signbit(np.real(right))
return bool(signs or (result != right and not abs(result - right) <= allowed))
""",
    "audit varying": """
from conformance.hunt.worker import varying

function, arguments, _ = first()
lines = varying(function, arguments)
print(*lines, sep="\\n")
return impl.audit(function)(*arguments).ok and bool(lines)
""",
    "audit refused": """
function, arguments, _ = first()
return not impl.audit(function)(*arguments).ok
""",
    "off sums": """
function, arguments, _ = first()
sums = sums_over_devices(lowered_text(function, arguments))
print(sums)
return sums != {sums}
""",
    "off": """
function, arguments, _ = first()
impl.use_deterministic_algorithms({is_scope})
text = without_repeats(lowered_text(function, arguments, scope={is_scope}))
return digest(np.frombuffer(text.encode(), np.uint8)) != {plain!r}
""",
    "growth": """
function, arguments, _ = first()
numbers = operations(function, arguments, with_gradient={has_gradient})
print(numbers)
return grows(numbers)
""",
    "gradient": """
function, arguments, how = first()
own = called(function, arguments, how)
with impl.deterministic(False):
    plain = called(function, arguments, how)
print(own, plain)
far = [np.abs(np.float64(a) - np.float64(b)).max() > 0.002 * np.abs(b).max()
       for a, b in zip(own, plain, strict=True) if a.dtype.name != "float0"]
return any(far)
""",
    "refusal": """
function, arguments, how = first()
if impl.audit(function)(*arguments).ok:
    return True
try:
    called(function, arguments, how)
except Exception as error:
    return "has no portable path" not in str(error)
return True
""",
    "fails": """
try:
    called(*first())
except Exception as error:
    print(error)
    return True
return False
""",
}


def text(finding: Finding, kinds: Sequence[Kind]) -> str:
    """Returns the text of the file of a finding, whose workers have some options."""
    if finding.wrong is not None:
        variable = finding.wrong.variable
        program, setting = shrink.rebuilt(finding.program, finding.setting, outputs=(variable,))
        finding = dataclasses.replace(finding, program=program, setting=setting)
    program, setting, kind = finding.program, finding.setting, kinds[finding.setting.worker]
    environment = "it needs jax and samebits."
    if kind.python != kinds[0].python:
        environment = "OTHER_PYTHON names an interpreter with another release of JAX."
    if kind.root != ROOT:
        environment += " PYTHONPATH names a copy of samebits with the mutant."
    parts = [
        _HEAD.format(
            title=f"{_TITLES[finding.kind]} Setting: {setting}.",
            detail=finding.detail.replace("\\", "/").replace('"""', "'''")[:600],
            primitives=", ".join(finding.primitives) or "of several equations",
            rules="; ".join(suspected(finding.primitives)) or "none of a single primitive",
            environment=environment,
        ),
        "import base64\nimport os\nimport subprocess\nimport sys\nimport tempfile\n\n",
        'os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")\n',
        source.PRELUDE.split("from __future__ import annotations\n", 1)[1],
        source.imports(program),
        "\nimport impl\n",
        "\n" + source.arguments(program) + "\n\n",
    ]
    if finding.kind == "bits":
        ways = {
            name: {
                "other": each.python != kinds[0].python,
                "flags": each.environment()["XLA_FLAGS"],
                "threads": str(each.threads),
            }
            for name, each in (("first", kinds[0]), ("second", kind))
        }
        parts += [
            f"KINDS = {ways!r}\n\n\n",
            source.function(program, base_of(setting, program), "first"),
            "\n\n" + source.function(program, setting, "second"),
            _BITS.format(wide=program.is_wide, is_one_program=_is_one(finding)),
        ]
    else:
        own = source.function(program, setting, "first", exempt=finding.mark == "sums")
        parts += [f"\n{own}", _ONE.format(wide=program.is_wide, body=_body(finding))]
    parts.append('\n\nif __name__ == "__main__":\n')
    parts.append('    impl.use_deterministic_algorithms(True, guarantee="portable")\n')
    if kind.plant is not None:
        parts.append(f"    exec(open({str(kind.plant.absolute())!r}).read())\n")
    parts.append("    sys.exit(int(main()))\n")
    return "".join(parts)


def _is_one(finding: Finding) -> bool:
    """Returns whether both settings have the same equations, which ``first_difference`` needs.

    A ``shard_map``, a loop or a scope around the program adds equations to one of the two.
    """
    setting = finding.setting
    is_plain = setting.call == "jit" and not setting.constraints
    return is_plain and setting.partition in ("none", "jit")


def _body(finding: Finding) -> str:
    """Returns the lines that decide whether the fault is there."""
    # The sentence about other sums, or about another text, ends so: "are 3, and 2 in plain JAX".
    words = ["", "", "", *finding.detail.split()]
    facts: dict[str, object] = {
        "sums": words[-4],
        "plain": words[-1],
        "is_scope": finding.mark == "scope",
    }
    facts["has_gradient"] = checks.has_gradient(finding.program)
    if finding.wrong is not None:
        error = abs(finding.wrong.got - finding.wrong.right)
        right = repr(finding.wrong.right).replace("nan", "np.nan").replace("inf", "np.inf")
        allowed = error * 0.6 if np.isfinite(error) else 0.0
        facts |= {"index": finding.wrong.index, "right": right, "allowed": allowed}
    both = f"{finding.kind} {finding.mark}"
    body = _BODIES.get(both) or _BODIES.get(finding.kind) or _BODIES["fails"]
    return textwrap.indent(body.strip().format(**facts), " " * 8)


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
