"""Writes the programs of ``impl/_native``: ``python -m conformance.lab.elementary.programs``.

The equations of ``impl._exact.elementary`` are the one description of a function. XLA compiles them
for a GPU and for great arrays. On a CPU the engine ``native`` interprets their program, which this
module assembles from the equations that JAX traces for one element (``src/functions.h``). Seals,
which keep XLA from contracting and narrowing, have no steps, as the engine computes each step as it
stands::

    c:f32[] = mul a:f32[] b:f32[]
    d:i32[] = bitcast_convert_type c         multiply    2 = 0 1
    e:i32[] = min d 2147483646          ->   to_float32  2 = 2
    f:f32[] = bitcast_convert_type e         multiply    2 = 2 0
    g:f32[] = mul f a                        to_float32  2 = 2
"""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS, doubles
from impl._jax import shardings
from impl._native import functions, operation
from impl._native.functions import Program

#: The names of the steps, in the order of SAMEBITS_STEPS of ``src/functions.h``.
STEPS = (
    *("add", "subtract", "multiply", "multiply_add", "add_product", "subtract_product"),
    *("product_error", "sum_error", "rest_of_sum", "entry"),
    *("divide", "greatest", "least", "is_below", "is_at_most", "is_equal", "differs", "negated"),
    *("magnitude", "root", "nearest_integer", "integer_below", "sign", "is_finite"),
    *("to_float32", "to_bfloat16", "to_float16"),
    *("to_integer", "bits_of_float32", "integer_add", "integer_subtract", "integer_multiply"),
    *("integer_greatest", "integer_least", "integer_is_below", "integer_is_at_most"),
    *("integer_is_equal", "integer_differs", "shift_left", "shift_right", "shift_right_logical"),
    *("to_int32", "to_double", "float32_of_bits", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("bitwise_not", "is_true", "select"),
)
#: The errors of a sum that ``two_sum`` and ``fast_two_sum`` compute, of a, b, and ``_NEAR``.
_NEAR = ("add", "a", "b")
_OF_B = ("subtract", _NEAR, "a")
_ERRORS = {
    "sum_error": ("add", ("subtract", "a", ("subtract", _NEAR, _OF_B)), ("subtract", "b", _OF_B)),
    "rest_of_sum": ("subtract", "b", ("subtract", _NEAR, "a")),
}
#: The fewest steps of a function that is a call: XLA fuses a shorter one with its neighbours.
FEWEST_STEPS = 40
#: kFirstConstant of ``src/functions.h``.
_FIRST_CONSTANT = 2048

_DOUBLE, _FLOAT = np.dtype(np.float64), np.dtype(np.float32)
_LONG, _INT, _BOOL = np.dtype(np.int64), np.dtype(np.int32), np.dtype(bool)
#: The step that rounds a float64 which a step computed to a narrower dtype.
_ROUNDED = {
    _FLOAT: "to_float32",
    np.dtype(jnp.bfloat16): "to_bfloat16",
    np.dtype(jnp.float16): "to_float16",
    _INT: "to_int32",
}
#: The steps of JAX's primitives, of floats, and of integers, whose steps have a word more.
_OF_BOTH = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "max": "greatest",
    "min": "least",
    "lt": "is_below",
    "le": "is_at_most",
    "eq": "is_equal",
    "ne": "differs",
}
_OF_FLOATS = _OF_BOTH | {
    "div": "divide",
    "neg": "negated",
    "abs": "magnitude",
    "sqrt": "root",
    "round": "nearest_integer",
    "floor": "integer_below",
    "sign": "sign",
    "is_finite": "is_finite",
}
_OF_INTEGERS = {name: f"integer_{step}" for name, step in _OF_BOTH.items()} | {
    "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right",
    "shift_right_logical": "shift_right_logical",
    **{name: f"bitwise_{name}" for name in ("and", "or", "xor", "not")},
}
#: The primitives whose results may have more bits than their dtype.
_INEXACT = frozenset({"add", "sub", "mul", "div", "sqrt", "shift_left"})
#: The primitives whose operands are swapped: a > b is b < a.
_SWAPPED = {"gt": "lt", "ge": "le"}
#: The primitives that call the equations of a parameter.
_CALLS = {"pjit": "jaxpr", "jit": "jaxpr", "custom_jvp_call": "call_jaxpr"}
#: The jitted function that is one step (``impl._exact.elementary._pairs``).
_PRODUCT_ERROR = "product_error"
#: The step that reads the bits of a float32 as an int32, and the step that undoes it.
_BITS, _OF_BITS = "bits_of_float32", "float32_of_bits"
#: The bits of a float of 16 bits, which no step has: a seal reads them and turns them back.
_SHORT_BITS = "bits_of_16"


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constant: 64 bits, as a signed integer."""

    bits: int


@dataclasses.dataclass(frozen=True)
class Table:
    """Constants that a step reads one of.

    Attributes:
        entries: The bits of kEntries of ``src/functions.h``.
    """

    entries: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """The result of a step, or an operand of the call, whose step is its number.

    Attributes:
        step: The name of the step.
        operands: The operands of the step.
    """

    step: str | int
    operands: tuple[Operand, ...] = ()


Operand: TypeAlias = Constant | Table | Value


def main() -> None:
    """Writes the file of programs."""
    functions.PROGRAMS.write_text(text(), encoding="utf-8")


def text() -> str:
    """Returns the file of programs, a line for each."""
    fields = {key: json.dumps(dataclasses.asdict(program)) for key, program in found()}
    lines = ",\n".join(f"{json.dumps(key)}: {value}" for key, value in fields.items())
    return f"{{\n{lines}\n}}\n"


def found() -> Iterator[tuple[str, Program]]:
    """Yields each program that is long enough to be a call, with its key."""
    for name, function in sorted(FUNCTIONS.items()):
        for dtypes in _dtypes_of(name, operation.DTYPES - {_DOUBLE}):
            program = assembled(function, dtypes)
            if len(program.steps) >= FEWEST_STEPS:
                yield functions.key(name, dtypes), program
    for name, (full, quick) in sorted(doubles.FUNCTIONS.items()):
        for dtypes in _dtypes_of(name, [_DOUBLE]):
            key, program = functions.key(name, dtypes), assembled(full, dtypes)
            if len(program.steps) < FEWEST_STEPS:
                continue
            yield key, program
            if quick is not None:
                yield f"{key} quick", assembled(quick, dtypes, is_quick=True)


def _dtypes_of(name: str, dtypes: Iterable[Any]) -> Iterator[list[Any]]:
    """Yields the dtypes of the operands of a primitive, for dtypes of its first operand."""
    for dtype in sorted(dtypes, key=str):
        more = {"pow": (dtype, _INT, _LONG), "atan2": (dtype,), "div": (dtype,)}
        if name in more:
            yield from ([dtype, second] for second in more[name])
        elif name != "integer_pow":  # It has a program for each exponent, a short one.
            yield [dtype]


def assembled(
    function: Callable[..., Any], dtypes: Sequence[Any], *, is_quick: bool = False
) -> Program:
    """Returns the program of an elementwise function.

    Args:
        function: Takes arrays of one shape, and returns arrays of this shape, in equations that
            have steps.
        dtypes: The dtypes of the arrays.
        is_quick: Whether the results are ends of an interval, which also stand if a product and a
            sum are rounded once.

    Raises:
        NotImplementedError: An equation has no step.
    """
    scalars = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes]
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=True), shardings.no_mesh():
        jaxpr = jax.make_jaxpr(function)(*scalars)
    operands = [Value(number) for number in range(len(scalars))]
    values: list[Value] = [*operands]
    results = _Reader(values, is_quick=is_quick).results(jaxpr.jaxpr, jaxpr.consts, operands)
    computed = [each for each in results if isinstance(each, Value) and each.operands]
    if computed != results:
        raise NotImplementedError("a function that computes nothing")
    return _Writer(values, computed, is_quick=is_quick).program(len(operands))


class _Reader:
    """Reads equations as values; equal steps are one value."""

    def __init__(self, values: list[Value], *, is_quick: bool) -> None:
        self._values = values
        self._is_quick = is_quick
        self._known: dict[Any, Value] = {}

    def results(self, jaxpr: Any, constants: Sequence[Any], operands: Any) -> list[Operand]:
        """Returns the results of a jaxpr."""
        known: dict[Any, Operand] = dict(zip(jaxpr.invars, operands, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            known[variable] = _constant(value, variable.aval.dtype)

        def read(atom: Any) -> Operand:
            if hasattr(atom, "val"):
                return _constant(atom.val, atom.aval.dtype)
            return known[atom]

        for equation in jaxpr.eqns:
            own = [read(atom) for atom in equation.invars]
            name = equation.primitive.name
            results: list[Operand]
            if equation.params.get("name") == _PRODUCT_ERROR:
                results = [self._value(_PRODUCT_ERROR, *own)]
            elif name in _CALLS:
                inner = equation.params[_CALLS[name]]
                results = self.results(inner.jaxpr, inner.consts, own)
            else:
                results = [self._result(equation, own)]
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _result(self, equation: Any, operands: list[Operand]) -> Operand:
        name, source = equation.primitive.name, equation.invars[-1].aval.dtype
        target = equation.outvars[0].aval.dtype
        if name in _SWAPPED:
            name, operands = _SWAPPED[name], operands[::-1]
        if name == "convert_element_type":
            return self._converted(operands[0], source, target)
        if name == "bitcast_convert_type":
            return self._same_bits(operands[0], source, target)
        if name == "select_n":
            return self._value("select", operands[0], operands[2], operands[1])
        if name == "clamp":
            steps = _steps(source)
            raised = self._value(steps["max"], operands[1], operands[0])
            return self._value(steps["min"], raised, operands[2])
        if name == "min" and operands[1] == _seal(source):
            return operands[0]
        if name == "neg" and not _is_float(source):
            name, operands = "sub", [Constant(0), *operands]
        step = _steps(source).get(name)
        if step is None:
            raise NotImplementedError(f"{name} of {source}")
        result = self._value(step, *operands)
        if target == source and name in _INEXACT and source in _ROUNDED:
            return self._value(_ROUNDED[source], result)
        return result

    def _value(self, step: str, *operands: Operand) -> Operand:
        if self._is_quick and step in ("add", "subtract") and _is_nothing(operands[1]):
            return operands[0]
        key = (step, operands)
        if key not in self._known:
            self._known[key] = Value(step, operands)
            self._values.append(self._known[key])
        return self._known[key]

    def _converted(self, value: Operand, source: Any, target: Any) -> Operand:
        if _is_float(source) and _is_float(target):
            if target.itemsize >= source.itemsize:
                return value
            if target.itemsize < 4 and source != _FLOAT:
                value = self._value(_ROUNDED[_FLOAT], value)
            return self._value(_ROUNDED[target], value)
        if _is_float(target):
            whole = self._converted(value, source, _LONG)
            result = self._value("to_double", whole)
            return result if target == _DOUBLE else self._converted(result, _DOUBLE, target)
        if _is_float(source):
            value, source = self._value("to_integer", value), _LONG
        if source == _BOOL:
            return self._value("is_true", value)
        if target not in (_LONG, _INT):
            raise NotImplementedError(f"conversion of {source} to {target}")
        return self._value("to_int32", value) if target.itemsize < source.itemsize else value

    def _same_bits(self, value: Operand, source: Any, target: Any) -> Operand:
        """Returns a value as another dtype of its size."""
        if source.itemsize == 8:
            return value
        if _is_float(source):
            return self._value(_BITS if source == _FLOAT else _SHORT_BITS, value)
        if isinstance(value, Value) and value.step in (_BITS, _SHORT_BITS):
            return value.operands[0]
        if target != _FLOAT:
            raise NotImplementedError(f"the bits of {source} as {target}")
        return self._value(_OF_BITS, value)


class _Writer:
    """Writes the values that results need as steps, in registers that are used again."""

    def __init__(
        self, values: Sequence[Value], results: Sequence[Value], *, is_quick: bool
    ) -> None:
        self._results = results
        self._of_product = (
            {"add": "add_product", "subtract": "subtract_product"}
            if is_quick
            else {"add": "multiply_add"}
        )
        self._constants: dict[Operand, int] = {}
        self._words: list[int] = []
        self._steps = {value: (value.step, value.operands) for value in values}
        self._drop_unused()
        self._fuse_errors()
        self._make_tables()
        self._drop_unused()
        self._fuse_products()

    def _drop_unused(self) -> None:
        needed, ahead = {*self._results}, [*self._results]
        while ahead:
            for operand in self._steps[ahead.pop()][1]:
                if isinstance(operand, Value) and operand not in needed:
                    needed.add(operand)
                    ahead.append(operand)
        self._steps = {value: own for value, own in self._steps.items() if value in needed}

    def _fuse_errors(self) -> None:
        """Makes one step of the error of a sum."""
        for value in self._steps:
            for step, pattern in _ERRORS.items():
                found: dict[Any, Operand] = {}
                if _matches(value, pattern, found):
                    self._steps[value] = (step, (found["a"], found["b"], found[_NEAR]))

    def _make_tables(self) -> None:
        """Makes one step of selects by each integer from 1 to the last entry of a table."""
        for value in self._steps:
            found: dict[Any, Operand] = {}
            if _matches(value, _TABLE, found):
                entries = [found[f"entry{number}"] for number in range(8)]
                bits = tuple(each.bits for each in entries if isinstance(each, Constant))
                if len(bits) == len(entries):
                    self._steps[value] = ("entry", (found["index"], Table(bits)))

    def _fuse_products(self) -> None:
        """Makes one step of a product that only one sum or difference uses, and of this."""
        uses = collections.Counter(each for _, own in self._steps.values() for each in own)
        for value, (step, operands) in [*self._steps.items()]:
            if step not in self._of_product:
                continue
            for other, factor in (operands[::-1], operands)[step == "subtract" :]:
                if not isinstance(factor, Value) or factor.step != "multiply" or uses[factor] > 1:
                    continue
                self._steps[value] = (self._of_product[step], (*factor.operands, other))
                del self._steps[factor]
                break

    def program(self, count: int) -> Program:
        """Returns the program of a call with ``count`` operands."""
        last = {each: value for value, (_, own) in self._steps.items() for each in own}
        last = {each: value for each, value in last.items() if each not in self._results}
        registers: dict[Operand, int] = {}
        free: list[int] = []
        words = []
        number = count
        for value, (step, operands) in self._steps.items():
            if isinstance(step, int):
                registers[value] = step
                continue
            own = [self._operand(each, registers) for each in operands]
            done = {each for each in operands if each in registers and last.get(each) is value}
            free += sorted(registers[each] for each in done)
            if not free:
                free.append(number)
                number += 1
            registers[value] = free.pop()
            word = STEPS.index(step) | registers[value] << 8
            words.append(word | sum(each << 20 + 12 * k for k, each in enumerate(own)))
        results = tuple(registers[each] for each in self._results)
        return Program(tuple(words), tuple(self._words), number, results)

    def _operand(self, operand: Operand, registers: Mapping[Operand, int]) -> int:
        if isinstance(operand, Value):
            return registers[operand]
        if operand not in self._constants:
            self._constants[operand] = len(self._words)
            self._words += operand.entries if isinstance(operand, Table) else [operand.bits]
        return _FIRST_CONSTANT + self._constants[operand]


def _is_nothing(value: Operand) -> bool:
    """Returns whether a value is known to be 0 or -0."""
    factors = value.operands if isinstance(value, Value) and value.step == "multiply" else (value,)
    return Constant(0) in factors


def _matches(value: Operand, pattern: Any, found: dict[Any, Operand]) -> bool:
    """Returns whether a value has the steps of a pattern, and enters what its parts are."""
    if found.setdefault(pattern, value) != value:
        return False
    if not isinstance(pattern, tuple):
        return isinstance(pattern, str) or value == pattern
    step, *parts = pattern
    if not isinstance(value, Value) or value.step != step:
        return False
    return all(_matches(*each, found) for each in zip(value.operands, parts, strict=True))


def _is_float(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating))


def _steps(dtype: Any) -> Mapping[str, str]:
    """Returns the steps of operands of a dtype, by the names of primitives."""
    return _OF_FLOATS if _is_float(dtype) else _OF_INTEGERS


def _seal(dtype: Any) -> Constant | None:
    """Returns the bound of ``arithmetic.seal``, which is above every integer that it gets."""
    return None if _is_float(dtype) else Constant(jnp.iinfo(dtype).max - 1)


def _constant(value: Any, dtype: Any) -> Constant:
    number = np.asarray(value)
    if _is_float(dtype):
        return Constant(int(number.astype(np.float64).view(np.int64)))
    return Constant(-int(number) if dtype == _BOOL else int(number))


#: The selects of a table.
_TABLE: Any = "entry0"
for _number in range(1, 8):
    _is_above = ("is_at_most", _constant(_number, _DOUBLE), "index")
    _TABLE = ("select", _is_above, f"entry{_number}", _TABLE)


if __name__ == "__main__":
    main()
