"""The primitives that ops are composed of, one file for each.

A file here has the rules of a primitive: shapes, derivatives, batching, and the choice of a
lowering. The file of the same name in ``impl._lowerings`` computes each path of the primitive on
each platform. The one in ``impl._kernels`` has the GPU programs that a lowering launches.

- ``arithmetic``: products and quotients with the same bits on every device.
- ``uninitialized``: arrays without initial values, or filled with a known value.
- ``alert``: raises or warns when it is lowered for a platform that the alert names;
  ``alert_not_deterministic`` is the public function that puts one into the op of a user.

Most primitives work on arrays of three axes, [outer, n, inner], and compute along the middle one.
``_common`` makes a primitive and chooses its lowering.
"""
