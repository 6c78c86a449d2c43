"""Deterministic operations for JAX: each call runs a fixed order of operations, or says it can't.

For example::

    import impl

    impl.use_deterministic_algorithms(True)
    impl.index_add(x, 0, index, source)

Functions carry the names, argument names and defaults of PyTorch's. What each does under the mode
is in the rows of ``spec``.
"""

from impl import nn as nn
from impl import testing as testing
from impl import utils as utils
from impl.alerts import alert_not_deterministic as alert_not_deterministic
from impl.mode import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from impl.mode import deterministic as deterministic
from impl.mode import get_deterministic_debug_mode as get_deterministic_debug_mode
from impl.mode import get_deterministic_profile as get_deterministic_profile
from impl.mode import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from impl.mode import set_deterministic_debug_mode as set_deterministic_debug_mode
from impl.mode import use_deterministic_algorithms as use_deterministic_algorithms
from impl.ops.bincount import bincount as bincount
from impl.ops.cumsum import cumsum as cumsum
from impl.ops.gather import gather as gather
from impl.ops.index_add import index_add as index_add
from impl.ops.index_select import index_select as index_select
from impl.ops.kthvalue import kthvalue as kthvalue
from impl.ops.scatter_add import scatter_add as scatter_add
