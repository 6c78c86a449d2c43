"""The former names of ``impl.tests.support``, for tests of products that are not moved yet."""

from impl.tests.support.lowerings import PRODUCTS as WAYS
from impl.tests.support.numbers import normal as random
from impl.tests.support.numbers import whole as exact
from impl.tests.support.products import assert_like_torch as assert_as_torch
from impl.tests.support.programs import gpu_program as lowered

__all__ = ["WAYS", "assert_as_torch", "exact", "lowered", "random"]
