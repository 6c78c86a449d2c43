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
from pathlib import Path

import numpy as np

from conformance.hunt import edits, source, whole
from conformance.hunt.checks import Finding
from conformance.hunt.crew import Crew
from conformance.hunt.settings import base_of
from conformance.hunt.tokens import TOKENS
from conformance.hunt.workers import ROOT, Kind

_HEAD = '''"""{title}

{detail}

Primitives: {primitives}.
Suspected rules: {rules}.

Python runs this file alone: {environment}
The exit status is 1 while the fault is there, and 0 after it is mended.
"""
'''

_BITS = '''

def run(name, *path):
    """Returns what a process of one setting prints; it records its equations in a file, if any."""
    kind = KINDS[name]
    python = os.environ.get("OTHER_PYTHON", sys.executable) if kind["other"] else sys.executable
    environment = {{**os.environ, "XLA_FLAGS": kind["flags"], "NPROC": kind["threads"]}}
    command = [python, __file__, name, *path]
    return subprocess.check_output(command, env=environment, text=True).split()


def main():
    """Returns whether the two settings differ."""
    if sys.argv[1:]:  # A process for one setting: it prints the digests of its results.
        with jax.enable_x64({wide}):
            function, arguments, how = {{"first": first, "second": second}}[sys.argv[1]]()
            if sys.argv[2:]:
                impl.programs.record(function, *arguments).save(sys.argv[2])
            else:
                print(*map(digest, called(function, arguments, how)))
        return False
    outputs = [run(name) for name in KINDS]
    for name, digests in zip(KINDS, outputs, strict=True):
        print(name, *digests)
    differ = outputs[0] != outputs[1]
    if differ and {is_one_program}:
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in KINDS]
            for name, path in zip(KINDS, paths, strict=True):
                run(name, path)
            print(impl.first_difference(first()[0], between=tuple(paths)))
    return differ
'''

_ONE = '''

def main():
    """Returns whether the program fails, or has another value than it should."""
    with jax.enable_x64({wide}):
        {body}
'''


def write(folder: Path, name: str, finding: Finding, crew: Crew) -> Path:
    """Writes the file of a finding, and returns its path.

    Args:
        folder: The folder, which is made if it is not there.
        name: The name of the file, without ``.py``.
        finding: The finding.
        crew: The workers, for their interpreters and options.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text(finding, crew), encoding="utf-8")
    return path


def text(finding: Finding, crew: Crew) -> str:
    """Returns the text of the file of a finding."""
    if finding.wrong is not None:
        variable = finding.wrong.variable
        program, setting = edits.rebuilt(finding.program, finding.setting, outputs=(variable,))
        finding = dataclasses.replace(finding, program=program, setting=setting)
    kind = crew.kinds[finding.setting.worker]
    is_other = kind.python != crew.kinds[0].python
    environment = (
        "OTHER_PYTHON names an interpreter with another release of JAX."
        if is_other
        else "it needs jax and samebits."
    )
    if kind.root != ROOT:
        environment += " PYTHONPATH names a copy of samebits with the mutant."
    primitives = names_of_primitives(finding)
    parts = [
        _HEAD.format(
            title=_title(finding),
            detail=finding.detail.replace("\\", "/").replace('"""', "'''")[:600],
            primitives=", ".join(primitives) or "of several equations",
            rules="; ".join(suspected(primitives)) or "none of a single primitive",
            environment=environment,
        ),
        "import base64\nimport os\nimport subprocess\nimport sys\nimport tempfile\n\n",
        'os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")\n',
        source.PRELUDE.split("from __future__ import annotations\n", 1)[1],
        source.imports(finding.program),
        "\nimport impl\n",
        "\n" + source.arguments(finding.program) + "\n\n",
    ]
    if finding.kind == "bits":
        parts.append(f"KINDS = {_kinds(crew.kinds[0], kind)!r}\n\n\n")
        parts.append(
            source.function(finding.program, base_of(finding.setting, finding.program), "first")
        )
        parts.append("\n\n" + source.function(finding.program, finding.setting, "second"))
        parts.append(_BITS.format(wide=finding.program.is_wide, is_one_program=_is_one(finding)))
    else:
        exempt = finding.mark == "sums"
        own = source.function(finding.program, finding.setting, "first", exempt=exempt)
        parts.append(f"\n{own}")
        parts.append(_ONE.format(wide=finding.program.is_wide, body=_body(finding)))
    parts.append('\n\nif __name__ == "__main__":\n')
    parts.append('    impl.use_deterministic_algorithms(True, guarantee="portable")\n')
    if kind.plant is not None:
        parts.append(f"    exec(open({str(kind.plant.absolute())!r}).read())\n")
    parts.append("    sys.exit(int(main()))\n")
    return "".join(parts)


def _title(finding: Finding) -> str:
    titles = {
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
    return f"{titles[finding.kind]} Setting: {finding.setting}."


def _is_one(finding: Finding) -> bool:
    """Returns whether both settings have the same equations, which ``first_difference`` needs.

    A ``shard_map``, a loop or a scope around the program adds equations to one of the two.
    """
    setting = finding.setting
    is_plain = setting.call == "jit" and not setting.constraints
    return is_plain and setting.partition in ("none", "jit")


def _kinds(first: Kind, second: Kind) -> dict[str, dict[str, object]]:
    """Returns how the two processes of a file run."""
    return {
        name: {
            "other": kind.python != first.python,
            "flags": kind.environment()["XLA_FLAGS"],
            "threads": str(kind.threads),
        }
        for name, kind in (("first", first), ("second", second))
    }


def _body(finding: Finding) -> str:
    """Returns the lines that decide whether the fault is there."""
    if finding.kind == "value":
        return _of_element(finding)
    if finding.kind == "audit":
        if finding.mark == "varying":
            return (
                "from conformance.hunt.worker import varying\n\n"
                "        function, arguments, _ = first()\n"
                "        lines = varying(function, arguments)\n"
                "        print(*lines, sep='\\n')\n"
                "        return impl.audit(function)(*arguments).ok and bool(lines)"
            )
        return (
            "function, arguments, _ = first()\n"
            "        return not impl.audit(function)(*arguments).ok"
        )
    if finding.kind == "off":
        if finding.mark == "sums":
            return (
                "function, arguments, _ = first()\n"
                "        sums = sums_over_devices(lowered_text(function, arguments))\n"
                f"        print(sums)\n        return sums != {finding.detail.split()[-4]}"
            )
        plain, is_scope = finding.detail.split()[-1], finding.mark == "scope"
        off = "" if is_scope else "        impl.use_deterministic_algorithms(False)\n"
        return (
            f"function, arguments, _ = first()\n{off}"
            f"        text = without_repeats(lowered_text(function, arguments, scope={is_scope}))\n"
            f"        return digest(np.frombuffer(text.encode(), np.uint8)) != {plain!r}"
        )
    if finding.kind == "growth":
        return (
            "function, arguments, _ = first()\n"
            "        numbers = operations(function, arguments, with_gradient=GRADIENT)\n"
            "        print(numbers)\n"
            "        return grows(numbers)"
        ).replace("GRADIENT", str(whole.has_gradient(finding.program)))
    if finding.kind == "gradient":
        return (
            "function, arguments, how = first()\n"
            "        own = called(function, arguments, how)\n"
            "        with impl.deterministic(False):\n"
            "            plain = called(function, arguments, how)\n"
            "        print(own, plain)\n"
            "        far = [np.abs(np.float64(a) - np.float64(b)).max() > 0.002 * np.abs(b).max()\n"
            "               for a, b in zip(own, plain, strict=True) if a.dtype.name != 'float0']\n"
            "        return any(far)"
        )
    if finding.kind == "refusal":
        return (
            "function, arguments, how = first()\n"
            "        if impl.audit(function)(*arguments).ok:\n            return True\n"
            "        try:\n            called(function, arguments, how)\n"
            "        except Exception as error:\n"
            "            return 'has no portable path' not in str(error)\n        return True"
        )
    return (
        "try:\n            called(*first())\n        except Exception as error:\n"
        "            print(error)\n            return True\n        return False"
    )


def _of_element(finding: Finding) -> str:
    """Returns the lines that compare one element with its right value."""
    assert finding.wrong is not None  # noqa: S101  # A finding of this kind has one.
    got, right = finding.wrong.got, finding.wrong.right
    error = abs(got - right)
    allowed = error * 0.6 if np.isfinite(error) else 0.0
    return (
        f"result = called(*first())[0][{finding.wrong.index}].item()\n"
        f"        right, allowed = {_text(right)}, {allowed!r}\n"
        "        print(result, right)\n"
        "        if result != result or right != right:\n"
        "            return (result == result) != (right == right)\n"
        "        signs = np.signbit(np.real(result)) != np.signbit(np.real(right))\n"
        "        return bool(signs or (result != right and not abs(result - right) <= allowed))"
    )


def _text(number: complex) -> str:
    return repr(number).replace("nan", "np.nan").replace("inf", "np.inf")


def names_of_primitives(finding: Finding) -> list[str]:
    """Returns the primitives that the equations of a program were drawn for."""
    names = [TOKENS[each.token].primitives for each in finding.program.equations]
    return list(dict.fromkeys(name for each in names for name in each))


def suspected(primitives: list[str]) -> list[str]:
    """Returns the file and the function of the rule of each primitive."""
    from impl import _portable  # noqa: PLC0415  # The parent needs JAX for a finding alone.
    from impl._portable.rules import RULES  # noqa: PLC0415  # As above.

    del _portable
    found = []
    for name in primitives:
        rule = RULES.get(name)
        function = rule and (rule.compute or rule.of_complex or rule.params)
        function = getattr(function, "func", function)
        if function is None or not inspect.isfunction(function):
            continue
        file = Path(inspect.getsourcefile(function) or "").resolve()
        short = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name
        found.append(f"{name}: {function.__name__} in {short}")
    return found
