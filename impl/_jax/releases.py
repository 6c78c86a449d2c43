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
#: Whether XLA merges operations that have not the effect of one (before 0.12). Of two paddings of
#: an array that devices share, it keeps the border of the first, and forgets the number that the
#: second pads with; no upstream issue is known. Of two slices it adds the starts, and forgets that
#: each is moved into the range of its own array. It writes a scatter of one window, and its part on
#: a device, with such slices (https://github.com/jax-ml/jax/issues/18434).
OPERATIONS_ARE_MERGED = jax.__version_info__ < (0, 12)
#: Whether this is the oldest supported release, for which budgets of calls and operations are kept.
IS_OLDEST = jax.__version_info__ < (0, 11)
