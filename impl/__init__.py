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
from impl import backends as backends
from impl import ops as ops
from impl import programs as programs
from impl import quantized as quantized
from impl import random as random
from impl import sparse as sparse
from impl._core import modules as _modules
from impl._mode import modes as _modes
from impl._mode.alert import alert_not_deterministic as alert_not_deterministic
from impl._mode.compilation import Jitted as Jitted
from impl._mode.compilation import compile_options as compile_options
from impl._mode.compilation import jit as jit
from impl._mode.compilation import set_xla_flags as set_xla_flags
from impl._mode.compilation import xla_flags as xla_flags
from impl._mode.modes import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
)
from impl._mode.modes import deterministic as deterministic
from impl._mode.modes import get_deterministic_debug_mode as get_deterministic_debug_mode
from impl._mode.modes import get_deterministic_guarantee as get_deterministic_guarantee
from impl._mode.modes import get_deterministic_profile as get_deterministic_profile
from impl._mode.modes import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from impl._mode.modes import set_deterministic_debug_mode as set_deterministic_debug_mode
from impl._mode.modes import use_deterministic_algorithms as use_deterministic_algorithms
from impl._version import __version__ as __version__
from impl.ops._counting import bincount as bincount
from impl.ops._counting import histc as histc
from impl.ops._memory import empty as empty
from impl.ops._memory import empty_like as empty_like
from impl.ops._memory import empty_permuted as empty_permuted
from impl.ops._memory import empty_strided as empty_strided
from impl.ops._memory import new_empty as new_empty
from impl.ops._memory import new_empty_strided as new_empty_strided
from impl.ops._memory import resize as resize
from impl.ops._products import bmm as bmm
from impl.ops._products import mm as mm
from impl.ops._products import mv as mv
from impl.ops._reads import gather as gather
from impl.ops._reads import index_select as index_select
from impl.ops._reads import repeat_interleave as repeat_interleave
from impl.ops._reads import take as take
from impl.ops._reads import take_along_dim as take_along_dim
from impl.ops._reductions import index_reduce as index_reduce
from impl.ops._running import cummax as cummax
from impl.ops._running import cummin as cummin
from impl.ops._running import cumprod as cumprod
from impl.ops._running import cumsum as cumsum
from impl.ops._running import logcumsumexp as logcumsumexp
from impl.ops._scatters import index_add as index_add
from impl.ops._scatters import index_copy as index_copy
from impl.ops._scatters import index_fill as index_fill
from impl.ops._scatters import put as put
from impl.ops._scatters import scatter as scatter
from impl.ops._scatters import scatter_add as scatter_add
from impl.ops._scatters import scatter_reduce as scatter_reduce
from impl.ops._selection import argsort as argsort
from impl.ops._selection import kthvalue as kthvalue
from impl.ops._selection import median as median
from impl.ops._selection import mode as mode
from impl.ops._selection import nanmedian as nanmedian
from impl.ops._selection import sort as sort
from impl.ops._selection import topk as topk
from impl.ops._subscripts import getitem as getitem
from impl.ops._subscripts import index_put as index_put
from impl.quantized import QuantizedArray as QuantizedArray
from impl.quantized import dequantize as dequantize
from impl.quantized import qint8 as qint8
from impl.quantized import qint32 as qint32
from impl.quantized import quantize_per_tensor as quantize_per_tensor
from impl.quantized import quint8 as quint8
from impl.random import Generator as Generator
from impl.random import default_generator as default_generator
from impl.random import fork_rng as fork_rng
from impl.random import get_rng_state as get_rng_state
from impl.random import initial_seed as initial_seed
from impl.random import manual_seed as manual_seed
from impl.random import seed as seed
from impl.random import seed_everything as seed_everything
from impl.random import set_rng_state as set_rng_state

#: The modules of names that are imported when they are first used. A program that trains needs none
#: of them, and they double the time of the import.
_LATER = {
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
}

if _typing.TYPE_CHECKING:
    from impl import accumulator as accumulator
    from impl import diagnosis as diagnosis
    from impl import digests as digests
    from impl import nn as nn
    from impl import testing as testing
    from impl import utils as utils
    from impl.accumulator import Accumulator as Accumulator
    from impl.diagnosis import doctor as doctor
    from impl.digests import DigestLog as DigestLog
    from impl.digests import digest as digest
    from impl.programs._auditing.audit import audit as audit
    from impl.programs._differences.first_difference import first_difference as first_difference
else:
    # Type checkers read the imports, and take a list that they cannot know for an empty one.
    __all__ = [name for name in (*globals(), *_LATER) if not name.startswith("_")]
    __getattr__ = _modules.names(__name__, _LATER)

    def __dir__() -> list[str]:
        return __all__


# When all names are there: the guarantee portable imports what uses them.
_modes.turn_on_by_variables()
