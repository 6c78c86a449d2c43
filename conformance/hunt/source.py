"""Writes a program in a setting as Python: the text that a worker runs, and that a finding shows.

An input of two rows that two devices share, and a sum over them, become::

    def first():
        mesh = Mesh(np.array(jax.devices()[:2]).reshape((2,)), ("a",))
        def over_devices(x): return lax.psum(x, ("a",))
        def program(v0):
            v1 = over_devices(jnp.sum(v0, axis=0, dtype=v0.dtype))
            return (v1,)
        ...
        return function, arguments, "jit"
"""

from __future__ import annotations

import base64
import math

from conformance.hunt.program import Equation, Input, Program
from conformance.hunt.settings import Setting, Spec
from conformance.hunt.tokens import TOKENS
from conformance.hunt.tokens.forms import ROWS

_LIBRARIES = ("flax", "equinox", "optax")
#: The most elements of an array that is written as numbers.
_READABLE = 24
#: Functions of the rows that devices share; of rows that one device has, each returns its argument.
_COLLECTIVES = {
    "over_devices": "lax.psum(x, {axes})",
    "greatest_of_devices": "lax.pmax(x, {axes})",
    "least_of_devices": "lax.pmin(x, {axes})",
    "shares_of_devices": "lax.psum_scatter(x, {axes}, scatter_dimension=0, tiled=True)",
    "rows_of_devices": "lax.all_gather(x, {axes}, axis=0, tiled=True)",
}
#: Wrappers of JAX inside of a derivative, as opposed to ways to call.
_INSIDE = ("nested", "remat", "cond", "custom_jvp")


def libraries(program: Program) -> list[str]:
    """Returns the libraries that a program needs besides JAX."""
    used = " ".join(TOKENS[each.token].expression for each in program.equations)
    return [name for name in _LIBRARIES if f"{name}." in used]


def expression(equation: Equation, names: list[str]) -> str:
    """Returns an equation as an expression of Python, of the names of its operands."""
    operands = list(names)
    if equation.params.get("broadcasts"):
        operands[1] = f"jnp.broadcast_to({operands[1]}, {operands[0]}.shape)"
    params = {name: _literal(value) for name, value in equation.params.items()}
    text = TOKENS[equation.token].expression.format(*operands, **params)
    return text.replace(ROWS, f"{operands[0]}.shape[0]")


def _literal(value: object) -> str:
    """Returns a parameter as text: a list as a tuple, a string as it is."""
    if isinstance(value, list):
        return "(" + "".join(f"{_literal(each)}, " for each in value) + ")"
    return str(value)


def imports(program: Program) -> str:
    """Returns the imports of the libraries of a program; the prelude has all other imports."""
    lines = [
        f"import {name}.linen" if name == "flax" else f"import {name}"
        for name in libraries(program)
    ]
    return "\n".join(lines) + "\n"


def arguments(program: Program) -> str:
    """Returns the arguments of a program, as a list with the name ``ARGUMENTS``."""
    lines = [f"    {_array(each)}," for each in program.inputs]
    return "\n".join(["ARGUMENTS = [", *lines, "]\n"])


def _array(each: Input) -> str:
    values = each.values()
    dtype = f"jnp.{each.aval.dtype}" if each.aval.dtype != "bool" else "bool"
    if values.size <= _READABLE and values.dtype.kind != "c":
        flat = values.reshape(-1).tolist()
        numbers = ", ".join("np.nan" if x != x else repr(x).replace("inf", "np.inf") for x in flat)  # noqa: PLR0124
        return f"np.array([{numbers}], {dtype}).reshape({values.shape})"
    data = base64.b64encode(values.tobytes()).decode()
    return f"np.frombuffer(base64.b64decode({data!r}), {dtype}).reshape({values.shape})"


def function(
    program: Program,
    setting: Setting,
    name: str = "first",
    *,
    all_variables: bool = False,
    exempt: bool = False,
) -> str:
    """Returns the definition of a function, which returns a program, its arguments and a call.

    With ``all_variables``, the program returns each of its variables. With ``exempt``, sums over
    devices are in a scope without a guarantee.
    """
    lines = [f"def {name}():", f'    """Runs the program: {setting}."""']
    lines += _mesh(setting, exempt=exempt)
    lines += _body(program, setting, all_variables=all_variables)
    inner = "program"
    if setting.call in _INSIDE:
        inner = f'inside(program, "{setting.call}")'
    if setting.partition == "shard_map":
        own = ", ".join(_partition(spec) for spec in setting.specs[: program.primals])
        avals = program.avals()
        ends = ", ".join(
            f"P({setting.axes!r})" if avals[v].rows else "P()" for v in program.outputs
        )
        inner = (
            f"jax.shard_map({inner}, mesh=mesh, in_specs=({own},), out_specs=({ends},), "
            f"check_vma={setting.check_vma})"
        )
    if setting.partition == "pmap":
        given, returned = _flags(program).split()
        inner = f'by_pmap({inner}, {math.prod(setting.mesh)}, "{given}", "{returned}")'
    lines.append(f'    function = derived({inner}, "{program.derivative}", {program.primals})')
    if setting.partition in ("jit", "explicit"):
        specs = ", ".join(_partition(spec) for spec in setting.specs)
        lines.append(
            "    arguments = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in "
            f"zip(ARGUMENTS, [{specs}], strict=True)]"
        )
    else:
        lines.append("    arguments = [jnp.asarray(x) for x in ARGUMENTS]")
    call = "jit" if setting.call in _INSIDE else setting.call
    if call == "rows":
        call = f"rows {_flags(program)}"
    lines.append(f'    return function, arguments, "{call}"\n')
    return "\n".join(lines)


def _flags(program: Program) -> str:
    """Returns a 1 for each argument with rows, and a 1 for each result with rows."""
    avals = program.avals()
    given = "".join(str(int(each.aval.rows)) for each in program.inputs)
    returned = "".join(str(int(avals[v].rows)) for v in program.outputs)
    return f"{given} {returned * (2 if program.derivative == 'forward' else 1)}"


def _mesh(setting: Setting, *, exempt: bool) -> list[str]:
    """Returns the lines that make the mesh, and the functions over devices."""
    lines = []
    if setting.mesh:
        kinds = ""
        if setting.partition == "explicit":
            kinds = f", axis_types=(AxisType.Explicit,) * {len(setting.mesh)}"
        devices = f"np.array(jax.devices()[:{math.prod(setting.mesh)}]).reshape({setting.mesh})"
        lines.append(f"    mesh = Mesh({devices}, {setting.axes}{kinds})")
    shares = setting.partition in ("shard_map", "pmap")
    for name, collective in _COLLECTIVES.items():
        function = f"lambda x: {collective.format(axes=setting.axes) if shares else 'x'}"
        if exempt and name == "over_devices":
            function = f"without_guarantee({function})"
        lines.append(f"    {name} = {function}")
    return lines


def _body(program: Program, setting: Setting, *, all_variables: bool) -> list[str]:
    names = [f"v{i}" for i in range(program.primals)]
    lines = [f"    def program({', '.join(names)}):"]
    constraints = dict(setting.constraints)
    lines += [_constrained(v, constraints[v]) for v in range(program.primals) if v in constraints]
    used = {v for each in program.equations for v in each.operands} | set(program.outputs)
    for number, equation in enumerate(program.equations, program.primals):
        if number not in used and not all_variables:
            continue
        text = expression(equation, [f"v{i}" for i in equation.operands])
        lines.append(f"        v{number} = {text}")
        if number in constraints:
            lines.append(_constrained(number, constraints[number]))
    count = program.primals + len(program.equations)
    outputs = range(program.primals, count) if all_variables else program.outputs
    lines.append(f"        return ({''.join(f'v{i}, ' for i in outputs)})")
    return lines


def _constrained(number: int, spec: Spec) -> str:
    """Returns the line that constrains a variable."""
    sharding = f"NamedSharding(mesh, {_partition(spec)})"
    return f"        v{number} = lax.with_sharding_constraint(v{number}, {sharding})"


def _partition(spec: Spec) -> str:
    """Returns a sharding as a ``PartitionSpec``."""
    return f"P({', '.join(repr(each) if each else 'None' for each in spec)})"


def whole(
    program: Program, setting: Setting, *, all_variables: bool = False, exempt: bool = False
) -> str:
    """Returns the text that a worker runs, without the prelude; see ``function``."""
    own = function(program, setting, all_variables=all_variables, exempt=exempt)
    return f"import base64\n{imports(program)}{arguments(program)}{own}"


def references(program: Program, kinds: dict[str, str]) -> tuple[str, list[tuple[int, str]]]:
    """Returns a program that computes each equation alone, by plain JAX, from given operands.

    ``kinds`` are, for a name of a check, ``same`` (the equation as it is), ``wide`` (in float64),
    or ``terms`` (in float64, and once more for the magnitudes of the operands). The function of the
    text takes all variables, and returns what the list says: a variable's ``value`` or ``scale``.
    """
    names = [f"v{i}" for i in range(program.primals + len(program.equations))]
    lines = [f"def references({', '.join(names)}):"]
    lines.append(f"    {' = '.join(_COLLECTIVES)} = lambda x: x")
    results: list[tuple[int, str]] = []
    for number, equation in enumerate(program.equations, program.primals):
        kind = kinds.get(TOKENS[equation.token].check)
        if kind is None:
            continue
        own = [f"v{i}" for i in equation.operands]
        ways = {"same": ["{}"], "wide": ["wide({})"], "terms": ["wide({})", "magnitude({})"]}[kind]
        for way, label in zip(ways, ("value", "scale"), strict=False):
            text = expression(equation, [way.format(name) for name in own])
            lines.append(f"    r{len(results)} = {text}")
            results.append((number, label))
    lines.append(f"    return ({''.join(f'r{i}, ' for i in range(len(results)))})\n")
    return imports(program) + "\n".join(lines), results
