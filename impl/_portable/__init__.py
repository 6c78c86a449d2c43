"""The guarantee ``portable`` for JAX's own primitives: how each is lowered, or refused by name.

Under this guarantee a program gives the same bits on a CPU and on a GPU, with every supported JAX,
and on one device and on eight. XLA does not promise this: it adds in any order, contracts products
and sums, and calls the libraries of each device. So this package decides how each equation becomes
StableHLO, one by one, and leaves XLA no choice that shows in the bits. For example::

    def step(a, b):
        return jnp.sum(a * b)

1. JAX traces the program to a jaxpr. ``derivatives`` acts already in this step: releases of JAX
   write some derivatives with different equations, and under the guarantee all of them write the
   same. They also add the parts of a derivative in different orders; here these are one sum. ::

    { lambda ; a:f32[8] b:f32[8]. let
        c:f32[8] = mul a b
        d:f32[] = reduce_sum[axes=(0,)] c
      in (d,) }

2. JAX lowers the jaxpr for a platform, equation by equation, and looks up the lowering rule of each
   primitive. ``register`` has JAX find a rule of this package. With the mode off, or under another
   guarantee, that rule calls JAX's own one and nothing changes. A primitive of this project, or of
   a library that this project does not know (``unknown``), is lowered as the equations that it
   consists of.

3. ``classes`` asks ``spec/portable.toml`` for the class of the equation, by its primitive, dtypes
   and sizes. The answer of a class is one of three:

   - ``exact``: JAX's own lowering gives the same bits everywhere, as it does for ``reshape``.
   - ``refused``: ``refusal`` raises an error with the line of the user's code and a remedy.
     ``exported`` refuses calls of exported programs that were lowered without the guarantee.
   - ``rule``: this project computes the equation. Both equations above have this answer.

4. ``rules`` has a record for each such primitive, with a function of arrays: for ``mul`` a sealed
   product, for ``reduce_sum`` an exact sum (``impl._exact``). ``lower`` prepares the operands as
   the record says, and JAX traces the function and lowers its equations. ``shared`` has the
   precautions for floats that several devices share, and seals operands that come from outside of a
   portable scope. On a CPU without the engine ``native``, the result is::

    func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<f32> {
      %0 = stablehlo.multiply %arg0, %arg1
      %1 = stablehlo.bitcast_convert(stablehlo.replica_id) : tensor<f32>  // 0, unknown to XLA
      %2 = stablehlo.subtract %0, %1       // the seal: XLA cannot contract the product and a sum
      %3 = call @portable_reduce_sum(%2)   // a private function that XLA does not inline
      return %3
    }

5. In the body of a ``shard_map``, each device would round its own sum before ``psum`` adds the sums
   of all devices. ``device_sums`` rewrites the body before step 2: it moves each ``psum`` to where
   its terms arise, so that both sums become one, which is rounded once. ``carried_sums`` does the
   same with the iterations of a ``scan``.

6. XLA compiles the program. ``notice`` writes a line on the terminal if this takes long.

To compute a primitive differently, change its record. To classify it differently, change
``spec/portable.toml`` as well: a test compares the records with the classes.
"""
