"""All forms of the ops have PyTorch's results and gradients, or are refused as PyTorch does."""

import jax
import pytest

from impl.tests.every_op import forms_of_nn, forms_of_ops
from impl.tests.every_op.forms import assert_like_torch

FORMS = {**forms_of_ops.FORMS, **forms_of_nn.FORMS}

pytestmark = [
    pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning"),
    pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter:UserWarning"),
]


@pytest.mark.parametrize("op", FORMS)
def test_pytorch(torch, op):
    assert_like_torch(torch, op.partition("-")[0], FORMS[op])


@pytest.mark.parametrize("op", [op for op, forms in FORMS.items() if forms.wide])
def test_float64(torch, op):
    with jax.enable_x64(True):
        assert_like_torch(torch, op.partition("-")[0], FORMS[op].widened())
