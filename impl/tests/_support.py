"""The former names of ``impl.tests.support``, for tests that are not moved yet."""

from impl.tests.support.bits import assert_same_bits as assert_same_bits
from impl.tests.support.bits import bits as bits
from impl.tests.support.lowerings import DISTINCT as DISTINCT
from impl.tests.support.lowerings import LOWERINGS as LOWERINGS
from impl.tests.support.lowerings import STAND_INS as STAND_INS
from impl.tests.support.numbers import spread as spread
from impl.tests.support.programs import kernels as kernels
from impl.tests.support.programs import user_module as user_module
from impl.tests.support.refusals import assert_refused as assert_refused
from impl.tests.support.refusals import assert_torch_refuses as assert_torch_refuses
