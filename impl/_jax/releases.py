"""Facts about the supported releases of JAX and of the XLA that each requires.

Every test of a release stands here, with its reason, so that whoever adds or drops a release reads
one file. A name says what holds in the installed release; a caller asks for the name alone.
"""

from __future__ import annotations

import jax

#: Whether XLA for a CPU fuses nothing across an optimization barrier (0.11 and later). XLA of jax
#: 0.10 fuses past each barrier. No upstream issue is known.
FENCES_HOLD = jax.__version_info__ >= (0, 11)
#: Whether XLA for a CPU can be told to use no fusion emitters (``xla_cpu_use_fusion_emitters``).
#: Since 0.11 it always uses them.
CPU_EMITTERS_ARE_OPTIONAL = jax.__version_info__ < (0, 11)
#: Whether ``jax.sharding.AbstractDevice`` takes a platform, which it then needs (0.10.1 and later).
ABSTRACT_DEVICES_HAVE_PLATFORMS = jax.__version_info__ >= (0, 10, 1)
#: Whether XLA partitions an array whose layout is pinned as it partitions any other operation (0.11
#: and later). XLA of jax 0.10 gathers the array on each device.
PINNED_LAYOUTS_ARE_PARTITIONED = jax.__version_info__ >= (0, 11)
#: Whether XLA merges two paddings of one array that devices share (before 0.12). It then keeps the
#: border of the first, and forgets the number that the second pads with. No upstream issue is
#: known.
PADDINGS_ARE_MERGED = jax.__version_info__ < (0, 12)
#: Whether XLA gives wrong elements after a scatter into an array of which devices have unequal
#: parts (before 0.12). No upstream issue is known.
SCATTERS_MOVE_ELEMENTS = jax.__version_info__ < (0, 12)
#: Whether this is the oldest supported release, for which budgets of calls and operations are kept.
IS_OLDEST = jax.__version_info__ < (0, 11)
