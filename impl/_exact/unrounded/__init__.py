"""Sums that are not rounded yet, so that a program can add to them later: ``states`` of exact sums.

The order ``nearest`` rounds the exact sum of all terms once. Where the terms arise one after the
other, in the iterations of a loop or in several programs, an array of sums is kept as a state of
three words for each element.

- ``operations`` says how a product, a sum or a scatter adds, and adds its terms to a state.
- ``states`` computes the state of the terms of one operation, by parts that float64 adds exactly,
  merges states, rounds them in the end, and says which elements are in doubt. These are counted
  again.
"""
