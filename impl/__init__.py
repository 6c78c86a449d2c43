"""Deterministic operations for JAX: each call runs a fixed order of operations, or says it can't.

For example::

    import impl

    impl.use_deterministic_algorithms(True)
    impl.index_add(x, 0, index, source)

Functions carry the names, argument names and defaults of PyTorch's. What each does under the mode
is in the rows of ``spec``.
"""

from impl import backends as backends
from impl import nn as nn
from impl import random as random
from impl import sparse as sparse
from impl import testing as testing
from impl import utils as utils
from impl._mode.alerts import alert_not_deterministic as alert_not_deterministic
from impl._mode.compilation import compile_options as compile_options
from impl._mode.compilation import jit as jit
from impl._mode.modes import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
)
from impl._mode.modes import deterministic as deterministic
from impl._mode.modes import get_deterministic_debug_mode as get_deterministic_debug_mode
from impl._mode.modes import get_deterministic_profile as get_deterministic_profile
from impl._mode.modes import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from impl._mode.modes import set_deterministic_debug_mode as set_deterministic_debug_mode
from impl._mode.modes import use_deterministic_algorithms as use_deterministic_algorithms
from impl.diagnosis import doctor as doctor
from impl.ops.bincount import bincount as bincount
from impl.ops.bmm import bmm as bmm
from impl.ops.cummax import cummax as cummax
from impl.ops.cummin import cummin as cummin
from impl.ops.cumprod import cumprod as cumprod
from impl.ops.cumsum import cumsum as cumsum
from impl.ops.empty import empty as empty
from impl.ops.empty import empty_like as empty_like
from impl.ops.empty import empty_permuted as empty_permuted
from impl.ops.empty import empty_strided as empty_strided
from impl.ops.empty import new_empty as new_empty
from impl.ops.gather import gather as gather
from impl.ops.getitem import getitem as getitem
from impl.ops.histc import histc as histc
from impl.ops.index_add import index_add as index_add
from impl.ops.index_copy import index_copy as index_copy
from impl.ops.index_put import index_put as index_put
from impl.ops.index_reduce import index_reduce as index_reduce
from impl.ops.index_select import index_select as index_select
from impl.ops.kthvalue import kthvalue as kthvalue
from impl.ops.logcumsumexp import logcumsumexp as logcumsumexp
from impl.ops.median import median as median
from impl.ops.median import nanmedian as nanmedian
from impl.ops.mm import mm as mm
from impl.ops.mode import mode as mode
from impl.ops.mv import mv as mv
from impl.ops.put import put as put
from impl.ops.repeat_interleave import repeat_interleave as repeat_interleave
from impl.ops.resize import resize as resize
from impl.ops.scatter import scatter as scatter
from impl.ops.scatter_add import scatter_add as scatter_add
from impl.ops.scatter_reduce import scatter_reduce as scatter_reduce
from impl.ops.sort import argsort as argsort
from impl.ops.sort import sort as sort
from impl.ops.take import take as take
from impl.ops.take_along_dim import take_along_dim as take_along_dim
from impl.ops.topk import topk as topk
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
