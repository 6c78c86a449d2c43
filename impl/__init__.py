"""Deterministic operations for JAX: a call gives the same bits every time, or raises.

For example::

    import impl

    impl.use_deterministic_algorithms(True)
    impl.index_add(x, 0, index, source)

Functions have the names, argument names and defaults of PyTorch's. The rows of ``spec`` state what
the mode does to each. ``accumulator`` has exact sums over several programs. A module may be
imported by users if no part of its dotted name starts with an underscore.
"""

import typing as _typing

from impl import _shadowing as _shadowing  # first: it raises where another package named spec is
from impl import backends, ops, programs, quantized, random, sparse
from impl._core import modules as _modules
from impl._mode import modes as _modes
from impl._mode.alert import alert_not_deterministic
from impl._mode.compilation import Jitted, compile_options, jit, set_xla_flags, xla_flags
from impl._mode.modes import (
    are_deterministic_algorithms_enabled,
    deterministic,
    get_deterministic_debug_mode,
    get_deterministic_guarantee,
    get_deterministic_profile,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from impl._version import __version__ as __version__
from impl.ops._counting import bincount, histc
from impl.ops._memory import (
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    new_empty,
    new_empty_strided,
    resize,
)
from impl.ops._products import bmm, mm, mv
from impl.ops._reads import gather, index_select, repeat_interleave, take, take_along_dim
from impl.ops._reductions import index_reduce
from impl.ops._running import cummax, cummin, cumprod, cumsum, logcumsumexp
from impl.ops._scatters import (
    index_add,
    index_copy,
    index_fill,
    put,
    scatter,
    scatter_add,
    scatter_reduce,
)
from impl.ops._selection import argsort, kthvalue, median, mode, nanmedian, sort, topk
from impl.ops._subscripts import getitem, index_put
from impl.quantized import (
    QuantizedArray,
    dequantize,
    qint8,
    qint32,
    quantize_per_tensor,
    quint8,
)
from impl.random import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    seed_everything,
    set_rng_state,
)

if _typing.TYPE_CHECKING:
    from impl import accumulator, diagnosis, digests, nn, testing, utils
    from impl.accumulator import Accumulator
    from impl.diagnosis import doctor
    from impl.digests import DigestLog, digest
    from impl.programs._auditing.audit import audit
    from impl.programs._differences.first_difference import first_difference
else:
    # A program that trains needs none of them, and they double the time of the import.
    __getattr__ = _modules.names(
        __name__,
        {
            "Accumulator": "impl.accumulator",
            "accumulator": "impl.accumulator",
            "DigestLog": "impl.digests",
            "audit": "impl.programs._auditing.audit",
            "diagnosis": "impl.diagnosis",
            "digest": "impl.digests",
            "digests": "impl.digests",
            "doctor": "impl.diagnosis",
            "first_difference": "impl.programs._differences.first_difference",
            "nn": "impl.nn",
            "testing": "impl.testing",
            "utils": "impl.utils",
        },
    )

__all__ = [
    "Accumulator",
    "DigestLog",
    "Generator",
    "Jitted",
    "QuantizedArray",
    "accumulator",
    "alert_not_deterministic",
    "are_deterministic_algorithms_enabled",
    "argsort",
    "audit",
    "backends",
    "bincount",
    "bmm",
    "compile_options",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "default_generator",
    "dequantize",
    "deterministic",
    "diagnosis",
    "digest",
    "digests",
    "doctor",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "first_difference",
    "fork_rng",
    "gather",
    "get_deterministic_debug_mode",
    "get_deterministic_guarantee",
    "get_deterministic_profile",
    "get_rng_state",
    "getitem",
    "histc",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "initial_seed",
    "is_deterministic_algorithms_warn_only_enabled",
    "jit",
    "kthvalue",
    "logcumsumexp",
    "manual_seed",
    "median",
    "mm",
    "mode",
    "mv",
    "nanmedian",
    "new_empty",
    "new_empty_strided",
    "nn",
    "ops",
    "programs",
    "put",
    "qint8",
    "qint32",
    "quantize_per_tensor",
    "quantized",
    "quint8",
    "random",
    "repeat_interleave",
    "resize",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "seed",
    "seed_everything",
    "set_deterministic_debug_mode",
    "set_rng_state",
    "set_xla_flags",
    "sort",
    "sparse",
    "take",
    "take_along_dim",
    "testing",
    "topk",
    "use_deterministic_algorithms",
    "utils",
    "xla_flags",
]


def __dir__() -> list[str]:
    return __all__


# When all names are there: the guarantee portable imports what uses them.
_modes.turn_on_by_variables()
