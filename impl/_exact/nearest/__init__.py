"""Results that are the exact real ones, rounded once: the spec's order ``nearest``.

There are two ways, and neither shows in a result.

*Parts*, for all sums of elements: float64 adds parts of the terms without error, in any order.
``exact_sum`` has the technique and its proof, and more words for float64.

*Approximation, interval, repair*, for products of matrices and convolutions. The technique is Ziv's
rounding test (Ziv 1991, doi:10.1145/114697.116813), which correctly rounded elementary functions
use, applied to sums:

1. A library adds products in float64, in any order, and the operation bounds the error.
2. ``interval`` rounds both ends of the interval that the bound gives. If both ends round alike, the
   exact sum rounds so too. About one element in a thousand is in doubt, and fewer of long sums that
   are added in two ``Stages``.
3. ``repair`` finds the elements in doubt, and ``exact_sum`` adds their products by parts.
   It also tells which sums float64 has all bits of.
"""
