"""Each device bounds the error of a sum over devices by its own terms."""

from impl._exact.sums import reduction

reduction._Devices.max = lambda _, values: values
