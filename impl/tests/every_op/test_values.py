"""Values and gradients agree with PyTorch, of the ops that ``test_forms`` has not."""

import numpy as np
import pytest

from impl.tests.every_op.programs import assert_close, plain
from impl.tests.every_op.public_ops import named_samples
from impl.tests.every_op.test_forms import FORMS

SAMPLES = {
    name: sample
    for name, sample in named_samples().items()
    if sample.like_torch and (sample.variant == "sparse" or name.partition("-")[0] not in FORMS)
}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.filterwarnings("ignore:.*in beta:UserWarning")
def test_pytorch(sample, torch):
    tensors = [torch.from_numpy(np.array(array)) for array in sample.arrays]
    for position in sample.float_positions:
        tensors[position].requires_grad_()
    result = (sample.torch or sample.call)(torch, *tensors)
    theirs = list(result) if isinstance(result, tuple) else [result]
    outputs, gradient = plain(sample)(*sample.arrays)
    for got, tensor in zip(outputs, theirs, strict=True):
        want = tensor.detach().numpy()
        # Indices are int64 in PyTorch, and int32 here without x64.
        want = want.astype(np.int32) if want.dtype == np.int64 else want
        assert_close(got, want, "outputs", 1e-5)
    if not (sample.floats and sample.gradient_like_torch):
        return
    smooth = [out for out in theirs if out.is_floating_point()]
    if not smooth:
        return
    (sum((out**2).sum() for out in smooth) / 2).backward()
    for got, position in zip(gradient, sample.float_positions, strict=True):
        assert_close(got, tensors[position].grad.numpy(), "gradient", 1e-5)
