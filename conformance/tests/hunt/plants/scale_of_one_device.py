"""Each device bounds the error of a sum over devices by its own terms."""

from impl._exact.sums import reduction


def own(_, value):
    return value


setattr(reduction._Devices, "max", own)  # noqa: B010
