"""Sums that a ``scan`` carries: one sum of all iterations, rounded once.

A program that adds up the gradients of micro-batches rounds each gradient, and each addition, so
its bits depend on how the batch was cut. Under the guarantee ``portable``, a carried sum
``carry + g`` is the exact sum of the terms of all iterations instead. It is the same step as for
the devices of a ``shard_map`` (``impl._portable.device_sums``), whose ``psum`` moves back to where
its terms arise: the carry is the ``psum`` here, and the iterations are the devices. For example, of
the gradient of a weight::

    carry = carry + transpose(dot_general(y, x)) / 3           in each of 6 iterations

    xs, ys = stacked(x, y)                                     in each iteration, or
    carry = transpose(dot_general(ys, xs)) / 3                 once, after the loop

    state = added(state, y, x)                                 in each iteration
    carry = transpose(rounded(state)) / 3                      once, after the loop

The first way costs less, and takes memory for the factors of all iterations. It is taken where they
need no more memory than the states. The technique is code motion out of a loop, by linearity; the
accumulator of the second way is an unevaluated sum of floats (Dekker 1971, doi:10.1007/BF01397083;
Shewchuk 1997, doi:10.1007/PL00009321).

- ``plan`` finds the operations that add, behind linear operations. Its scopes follow how values
  vary along the iterations, by the rules of ``device_sums``.
- ``stacked`` chooses the operations whose factors a scan stacks, and computes them after it.
- ``write`` lets the bodies around an operation return its state, or its factors, and writes the
  scan that carries states of sums (``impl._exact.unrounded``), with the primitive of ``steps``.
- ``lower`` lowers all of it, with a second count of all terms if an element is in doubt, and with
  the linear operations after the loop, on the rounded sums (``Finish``).
- ``functions`` serves ``impl.Accumulator``, by the same plan.

These carried sums are rounded in each iteration, as the program says:

- A value that the body reads elsewhere too, such as a running statistic that it returns.
- A value whose next one is another function of it than a sum, such as a momentum.
- A sum whose terms pass an operation that is not linear, or a factor that differs between
  iterations, such as a gradient that is clipped in each iteration.
- A sum that a ``while`` carries: its number of iterations may depend on the sum.
- A sum of complex numbers, or behind a running sum or a window.
- A sum in a body with side effects, or that returns random keys: a second count would repeat them.
- A sum whose term is a sum over devices inside of a condition that devices may decide otherwise.

*Memory.* A state has 24 bytes for each sum, where the carry had 4. A second count needs 40 bytes
more, which XLA reserves, and a scan over layers returns the states of one iteration. XLA copies a
part of them, so a sum takes some 100 bytes; calls of the engine ``native`` copy nothing, and a sum
takes 64. Stacked factors take no more than that.
"""
