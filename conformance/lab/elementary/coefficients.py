"""Writes the coefficients of the elementary functions.

``python -m conformance.lab.elementary.coefficients`` does so.

Each polynomial of ``coefficients.toml`` interpolates its function at Chebyshev nodes, with 90
decimal digits, which is nearly as good as the best polynomial of its degree (Muller, Elementary
Functions, 3rd edition, 2016, chapter 3). Its error is measured with the coefficients as they are
written, rounded to float64, at 2000 points. The constants of range reduction are ``log(2)`` in two
parts, whose products with an exponent are exact (Cody and Waite, Software Manual for the Elementary
Functions, 1980), and the bits of ``2 / pi``, by which large arguments of sine and cosine are
reduced (Payne and Hanek, 1983).

For ``EXP`` the file has

    # (exp(x) - 1 - x) / x**2 for abs(x) <= log(2) / 2.
    # Degree 9, error 2**-55.8.
    EXP = [0.5000000000000001, 0.16666666666666669, ...]
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath as mp

_TARGET = Path(__file__).parents[3] / "impl" / "_exact" / "elementary" / "coefficients.toml"
_DOUBLES = _TARGET.parent / "doubles" / "coefficients.toml"
_POINTS = 2000
#: The number of words of 2 / pi. The greatest float64 needs its last bit.
_WORDS = 39
Function = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """A polynomial to make.

    Attributes:
        meaning: The function and the interval, in words.
        degree: Its degree.
        interval: The ends of its interval.
        function: The function that it approximates.
        weight: The relative error of the result for an error of 1 of the polynomial, by argument.
    """

    meaning: str
    degree: int
    interval: tuple[Any, Any]
    function: Function
    weight: Function


def _names() -> dict[str, Any]:
    """Returns the names that expressions may use."""
    return {name: getattr(mp, name) for name in dir(mp)} | {
        "MARGIN": 1.0001,
        "erfcx": _erfcx,
        "erf_inv_ratio": _erf_inv_ratio,
        "erf_ratio": lambda y: mp.erf(y) / y if y else 2 / mp.sqrt(mp.pi),
        "lgamma_ratio": lambda x: mp.loggamma(2 + x) / x if x else 1 - mp.euler,
        "stirling": _stirling,
        "stirling_of_digamma": _stirling_of_digamma,
        "zero_of_digamma": _zero_of_digamma(),
    }


def polynomials() -> dict[str, Polynomial]:
    """Returns the polynomials of ``coefficients.toml``, by the names of their coefficients."""
    names = _names()

    def value(expression: str) -> Any:
        return eval(expression, names)  # noqa: S307  # a line of our own file

    def of(entry: dict[str, Any]) -> Polynomial:
        function, weight = (value(f"lambda x: {entry[name]}") for name in ("function", "weight"))
        if "at_zero" in entry:
            function = _without_zero(function, value(entry["at_zero"]))
        low, high = map(value, entry["interval"])
        return Polynomial(entry["meaning"], entry["degree"], (low, high), function, weight)

    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: of(entry) for name, entry in table.items()}


def _without_zero(function: Function, at_zero: Any) -> Function:
    """Returns ``function`` with its limit at zero, where it has a gap."""

    def filled(x: Any) -> Any:
        return at_zero if abs(x) < mp.mpf(10) ** -15 else function(x)

    return filled


def _erfcx(y: Any) -> Any:
    return mp.exp(y * y) * mp.erfc(y)


def _erf_inv_ratio(x: Any) -> Any:
    y = mp.sqrt(-mp.expm1(-x))
    return mp.erfinv(y) / y


def _stirling(x: Any) -> Any:
    """Returns the rest of Stirling's formula for lgamma(1 / x), over x."""
    if x < mp.mpf(10) ** -15:
        return mp.mpf(1) / 12
    formula = (1 / x - mp.mpf(1) / 2) * -mp.log(x) - 1 / x + mp.log(2 * mp.pi) / 2
    return (mp.loggamma(1 / x) - formula) / x


def _stirling_of_digamma(x: Any) -> Any:
    """Returns -log(x) - x / 2 - digamma(1 / x), over x**2."""
    if x < mp.mpf(10) ** -15:
        return mp.mpf(1) / 12
    return (-mp.log(x) - x / 2 - mp.digamma(1 / x)) / x**2


@functools.cache
def _zero_of_digamma() -> Any:
    return mp.findroot(mp.digamma, 1.4616)


def coefficients(polynomial: Polynomial) -> list[float]:
    """Returns the coefficients of a polynomial, the lowest first."""
    values = mp.chebyfit(polynomial.function, polynomial.interval, polynomial.degree + 1)
    return [float(value) for value in values[::-1]]


def error(polynomial: Polynomial, values: list[float]) -> float:
    """Returns the greatest relative error of a result that the polynomial causes."""
    low, high = map(mp.mpf, polynomial.interval)
    worst = mp.mpf(0)
    for i in range(_POINTS + 1):
        x = low + (high - low) * i / _POINTS
        off = mp.polyval(values[::-1], x) - polynomial.function(x)
        worst = max(worst, abs(off * polynomial.weight(x)))
    return float(mp.log(worst, 2))


def split(value: Any, bits: int, parts: int) -> list[float]:
    """Returns a number as the sum of ``parts`` floats of ``bits`` bits, the greatest first."""
    result = []
    for _ in range(parts):
        unit = mp.mpf(2) ** (int(mp.floor(mp.log(abs(value), 2))) + 1 - bits)
        part = mp.nint(value / unit) * unit
        result.append(float(part))
        value -= part
    return result


def parts(value: Any) -> tuple[float, float]:
    """Returns a number as the nearest float and the float nearest to the rest."""
    return float(value), float(value - mp.mpf(float(value)))


def _constants() -> list[tuple[str, Any]]:
    """Returns the names and the values of the constants that are pairs, or tables of pairs."""
    return [
        ("PAIR_PI", mp.pi),
        ("PAIR_HALF_PI", mp.pi / 2),
        ("PAIR_1_PI", 1 / mp.pi),
        ("PAIR_HALF_ROOT_PI", mp.sqrt(mp.pi) / 2),
        ("PAIR_STIRLING", (mp.log(2 * mp.pi) - 1) / 2),
        ("PAIR_LOG_2", mp.log(2)),
        *[(f"PAIR_LOG_{i}_32", mp.log(mp.mpf(i) / 32)) for i in (23, 26, 29, 35, 38, 41, 44)],
        *[(f"PAIR_EXP2_{i}_8", mp.power(2, mp.mpf(i) / 8)) for i in range(1, 8)],
    ]


def text() -> str:
    """Returns the file of the data."""
    lines = [
        "# The coefficients of the elementary functions, lowest first.",
        "#",
        "# ``python -m conformance.lab.elementary.coefficients`` wrote this file. The error of a",
        "# polynomial is the greatest relative error of the result that it causes.",
        "",
    ]
    for name, polynomial in polynomials().items():
        values = coefficients(polynomial)
        exponent = error(polynomial, values)
        lines.append(f"# {polynomial.meaning}.")
        lines.append(f"# Degree {polynomial.degree}, error 2**{exponent:.1f}.")
        lines.append(f"{name} = [")
        lines += [f"    {value!r}," for value in values]
        lines += ["]", ""]
    high, low = split(mp.log(2), 42, 2)
    turn = split(mp.pi / 2, 33, 2)
    lines += [
        "# log(2) is the sum of two floats of 42 bits, whose products with an exponent are exact.",
        f"LN2_HIGH = {high!r}",
        f"LN2_LOW = {low!r}",
        "# The rest of log(2).",
        f"LN2_REST = {float(mp.log(2) - high - low)!r}",
        "# log(2) / 8 as floats of 39 bits, whose products with integers of 14 bits are exact.",
        f"LN2_EIGHTH = {split(mp.log(2) / 8, 39, 3)!r}",
        "# pi / 2 as two floats of 33 bits, whose products with 20 bits are exact, and the rest.",
        f"HALF_PI = {[*turn, float(mp.pi / 2 - mp.fsum(turn))]!r}",
        "# Constants as sums of two floats.",
        *(f"{name} = [{', '.join(map(repr, parts(value)))}]" for name, value in _constants()),
        "# The angles whose tangents are 1/8, 2/8, ..., 7/8.",
        f"PAIR_ATAN_EIGHTHS = {[list(parts(mp.atan(mp.mpf(i) / 8))) for i in range(1, 8)]!r}",
        "# The first bits of 2 / pi, in words of 32 bits.",
    ]
    with mp.workprec(32 * _WORDS + 64):
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (32 * _WORDS)))
    words = [(digits >> (32 * i)) & 0xFFFFFFFF for i in reversed(range(_WORDS))]
    lines += ["TWO_OVER_PI = [", *(f"    0x{word:08X}," for word in words), "]", ""]
    return "\n".join(lines)


def _pieces(entry: dict[str, Any], names: dict[str, Any]) -> Iterator[Polynomial]:
    """Yields the polynomial of each piece, of the distance to its centre."""
    values = {"function": entry["function"], "weight": entry["weight"]}
    ends = [mp.mpf(eval(end, names)) for end in entry["ends"]]  # noqa: S307  # our own file
    for low, high in itertools.pairwise(ends):
        at = names | {"centre": float((low + high) / 2)}
        function, weight = (
            eval(f"lambda z: (lambda x: {each})(centre + z)", at)  # noqa: S307
            for each in values.values()
        )
        interval = low - at["centre"], high - at["centre"]
        yield Polynomial(entry["meaning"], entry["terms"][0] - 1, interval, function, weight)


def text_of_doubles() -> str:
    """Returns the file of the data of functions of float64."""
    names = _names()
    lines = [
        "# The coefficients of functions of float64, the lowest first: a pair for each piece.",
        "#",
        "# ``python -m conformance.lab.elementary.coefficients`` wrote this file.",
        f"ZERO_OF_DIGAMMA = {split(_zero_of_digamma() - 1, 53, 3)!r}",
    ]
    table = tomllib.loads(Path(__file__).with_name("doubles.toml").read_text(encoding="utf-8"))
    for name, entry in table.items():
        rows, errors, starts, centres = [], [], [], []
        for piece, end in zip(_pieces(entry, names), entry["ends"], strict=False):
            values = mp.chebyfit(piece.function, piece.interval, piece.degree + 1)[::-1]
            kept = entry["pairs"][0]
            rows.append([parts(v) if k < kept else (float(v), 0.0) for k, v in enumerate(values)])
            errors.append(error(piece, [mp.mpf(high) + low for high, low in rows[-1]]))
            start = mp.mpf(eval(end, names))  # noqa: S307  # our own file
            starts.append(float(start))
            centres.append(float(start - piece.interval[0]))
        lines += [
            "",
            f"# {entry['meaning']}. Error 2**{max(errors):.1f}.",
            f"[{name}]",
            f"starts = {starts!r}",
            f"centres = {centres!r}",
            f"terms = {entry['terms']}",
            f"pairs = {entry['pairs']}",
            "coefficients = [",
            *(f"    {[list(pair) for pair in row]!r}," for row in zip(*rows, strict=True)),
            "]",
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Writes the files of the data."""
    with mp.workdps(90):
        _TARGET.write_text(text(), encoding="utf-8")
        _DOUBLES.write_text(text_of_doubles(), encoding="utf-8")


if __name__ == "__main__":
    main()
