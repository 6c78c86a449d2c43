"""Results that are the exact real ones, rounded once: the spec's order ``nearest``.

The technique is Ziv's rounding test (Ziv 1991, doi:10.1145/114697.116813), which correctly rounded
elementary functions use, applied to sums:

1. An operation adds its terms in float64, in any order, by any library, and bounds its error.
2. ``interval`` rounds both ends of the interval that the bound gives. If both ends round alike, the
   exact sum rounds so too. About one element in a thousand is in doubt.
3. The elements in doubt are computed again, without error.

Neither the order in step 1 nor the bound shows in the result, so a device may add as it likes.

- ``interval`` tests whether a bound decides a rounding. ``repair`` finds the elements in doubt of a
  product, and ``exact_sum`` adds their terms.
- ``stages`` adds long sums in two stages, with a smaller bound, and ``trees`` adds along axes in
  several. ``last_bits`` tells which sums float64 has all bits of. ``reductions`` reduces several
  arrays at once.
- ``any_sums`` adds along axes, over windows and devices: by ``sums``, or by ``long_sums`` if the
  terms or the results are float64. Both add all terms again if an element is in doubt. Scatters
  call them then, too.
"""
