"""The making and the proof of the elementary functions of ``impl._exact.elementary``.

A function is *correctly rounded* if its result is the float nearest to the exact value. Without a
proof, a library may differ from another in the last bit (the table maker's dilemma: Muller et al.,
Handbook of Floating-Point Arithmetic, 2nd edition, 2018, chapter 10). A float32 has 2**32 values,
so the proof is to try them all, as RLIBM (Lim and Nagarakatte, PLDI 2021) and CORE-MATH (Sibidanov,
Zimmermann and Glondu, ARITH 2022) do for their functions of one argument.

- ``coefficients`` writes the coefficients of the polynomials.
- ``reference`` has the correctly rounded values, and compares results with them.
- ``exhaustive`` tries every float32, and pairs of arguments; ``findings`` keeps the report.
- ``digests`` writes the digests of results that the unit tests compare.

All but ``findings`` need mpmath.
"""
