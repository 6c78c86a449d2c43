"""Results that are the exact real ones, rounded once: the spec's order ``nearest``.

The technique is Ziv's rounding test (Ziv 1991, doi:10.1145/114697.116813), which correctly rounded
elementary functions use, applied to sums:

1. An operation adds its terms in float64, in any order, by any library, and bounds its error.
2. ``interval`` rounds both ends of the interval that the bound gives. If both ends round alike, the
   exact sum rounds so too. About one element in a thousand is in doubt.
3. ``repair`` computes the elements in doubt again, some at a time, by ``exact_sum``.

Neither the order in step 1 nor the bound shows in the result, so a device may add as it likes.
"""
