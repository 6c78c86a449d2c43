"""Sums over the devices of a ``shard_map``, joined with the sums of each device.

In a ``shard_map``, a program adds twice: each device adds its own elements, and ``psum`` adds the
results of the devices. Under the guarantee ``portable`` every sum is rounded once, so there are two
roundings, and the first one depends on the number of devices. On one device the ``psum`` does
nothing, and the other equations give the result. This package makes several devices compute the
same result: it moves each ``psum`` back to the operation that adds sharded elements, and makes one
sum of the two, which is rounded once.

For example, eight rows lie on four devices along the mesh axis ``d``. The body of ::

    jax.shard_map(lambda x: lax.psum((x.sum(0) / 3).reshape(2, 2), "d"), in_specs=P("d"), ...)

is what each device runs on its two rows::

    { lambda ; a:f32[2,4]. let                           # a is sharded along dimension 0
        c:f32[4] = reduce_sum[axes=(0,)] a               # c is a term of a sum over d,
        d:f32[4] = div c 3.0                             # and so are d
        e:f32[2,2] = reshape[new_sizes=(2, 2)] d         # and e.
        f:f32[2,2] = psum[axes=('d',)] e                 # f is replicated.
      in (f,) }

``samebits_whole`` below adds all eight rows, as the program on one device does::

    { lambda ; a:f32[2,4]. let
        c:f32[4] = samebits_whole[name=reduce_sum params=(('axes', (0,)),) axis_names=('d',)] a
        d:f32[4] = div c 3.0                             # All values are replicated from here on.
        e:f32[2,2] = reshape[new_sizes=(2, 2)] d
      in (e,) }

The technique is code motion of a collective, steered by an abstract interpretation of shardings:

- ``shardings`` has the abstract values: replicated, sharded, term of a sum, unknown.
- ``sharding_rules`` has the rule of each operation, and ``flow`` follows them through a jaxpr.
  The types with which JAX checks a ``shard_map`` are coarser: over which mesh axes a value varies
  (M. Johnson and D. Maclaurin 2023, "Efficient transposition of replication-inducing collectives",
  https://docs.jax.dev/en/latest/jep/17111-shmap-transpose.html). GSPMD (Xu et al. 2021,
  https://arxiv.org/abs/2105.04663) propagates the same shardings, also backwards, to choose where
  arrays lie; here the caller has chosen, and ``flow`` only follows.
  It says which operations a sum passes, too: ``psum(f(x)) == f(psum(x))`` for linear ``f``.
- ``push`` copies the equations into the ``draft`` of a new jaxpr, moves the sums, and writes
  primitives of their own. XLA's passes ``AllReduceReassociate`` and
  ``WhileLoopAllReduceCodeMotion`` move an all-reduce in the other direction, behind additions and
  loops, so that there are fewer of them. Joined sums are lowered there too, by the functions that
  lower the operation on one device.

The records of primitives (``impl._portable.rule``) name the rules of each. A ``psum`` of which no
part is joined stays where it is: its result is the same in every run, but shows the number of
devices. These sums are not joined:

- A sum behind an operation that is not linear, such as a norm: before the operation, it would be
  another number.
- A sum that a ``while`` carries. Devices may stop at different iterations, and a sum in the body
  would wait for all of them.
- A sum with ``axis_index_groups``, and one that a program writes with ``ppermute``: a ``Sharding``
  describes whole mesh axes.
- The mean over a number of devices that is not a power of two: the program divides, and rounds, on
  each device and again after the ``psum``.
"""
