"""The engine ``native`` of the order ``nearest``: C++ for a CPU, called through XLA's FFI.

It serves the guarantee ``portable`` wherever XLA computes on a CPU. One custom call stands for a
sum, product, convolution, scatter or elementary function, so XLA compiles one line where the engine
``float64`` has hundreds. Both engines have one set of bits: the exact result, rounded once::

    jnp.sum of f32[8]     %0 = stablehlo.custom_call @samebits_reduce(%arg0) : tensor<f32>

- ``library`` finds the shared library and registers its calls with XLA. It may be missing.
- ``scope`` says whether a function is traced for this engine, and for how many devices.
- ``operation`` has the interface of operations, and ``call`` computes one of them: by one call on
  one device, by exact sums over ``devices``, or as XLA partitions it.
- ``products``, ``sums``, ``windows``, ``scatters`` and ``functions`` have the operations, a family
  in a file, and ``states`` adds them to carried sums. ``programs.json`` has the programs of
  elementary functions, which C++ compiles or interprets.
- ``src/`` has the C++: ``numbers.h`` the floats, ``threads.h`` the threads, and a pair of files for
  each family, of which ``*_kernels.cc`` is compiled for each vector unit.
"""
