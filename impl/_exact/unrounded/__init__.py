"""Sums that are not rounded yet, so that a program can add to them later: ``states`` of exact sums.

The order ``nearest`` rounds the exact sum of all terms once. Where the terms arise one after the
other, in the iterations of a loop or in several programs, an array of sums is kept as a state of
three words for each element, to which ``operations`` add what a product, a sum or a scatter adds.
``states`` rounds it in the end, and says which elements are in doubt. These are counted again.
"""
