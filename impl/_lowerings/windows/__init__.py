"""The lowerings of window operations: sums over windows, their maxima, and picks from windows.

Pooling, padding and interpolation read windows. A ``WindowTable`` lists the positions that each
window reads along one dimension, and its inverse lists the windows over each element. An operation
on several dimensions does one dimension after another. For max pooling of 5 elements by windows of
3 elements, 2 apart, with a padding of 1 (-1 stands for no tap and no window):

    index     window 0: [0, 1, -1]   window 1: [1, 2, 3]   window 2: [3, 4, -1]
    inverse   element 0: [0, -1]   1: [0, 1]   2: [1, -1]   3: [1, 2]   4: [2, -1]

    operand            [3., 7., 2., 5., 1.]
    maxima             [7., 7., 5.]          their positions [1, 1, 3]
    cotangent          [10., 20., 30.]
    transposed pick    [0., 10. + 20., 0., 30., 0.]

The ordered path reads ("gathers"): each element adds the windows of its inverse table, in ascending
order of windows. So no atomics are needed, and additions have the spec's sequence.

===========  ======================================================================
Module       Contents
===========  ======================================================================
sums         weighted sums over windows, and their transposes
maxima       maxima, with their positions or alone
argmax       positions of maxima along one dimension
picks        picks at these positions, and their transposes
cpu_even     the transpose of a pick from evenly spaced windows
cpu_phases   the same by phases
stores       ways to put a result into memory
===========  ======================================================================

``before_jax_0_11`` works around faults of jax 0.10.

**Which algorithm computes the transpose of a pick** (``picks``). The first line that holds counts.
All algorithms have the same bits. An algorithm is a function of ``picks``, or a module:

=========  ===========================================================  ============================
Platform   Windows                                                      Algorithm
=========  ===========================================================  ============================
any        one window over each element, or windows at least 8 apart    _pick_transpose_by_distance
           with at most 16 distances (``WindowTable.period``)
CPU        evenly spaced, not along the last axis                       cpu_even
CPU        evenly spaced along the last axis: at most 2 windows over    cpu_phases
           an element, and rows that are long or that can be joined
           (with jax 0.10 fewer of them: ``joined_rows_are_slow``)
CPU        evenly spaced along the last axis, any other                 cpu_even
CPU        any others with few phases                                   cpu_phases
any        all others                                                   _pick_transpose_by_table
=========  ===========================================================  ============================

"Evenly spaced" is limited to 8 windows over an element (``cpu_even.reads``), and "few phases" to
7 phases (``cpu_phases.phases``).
"""
