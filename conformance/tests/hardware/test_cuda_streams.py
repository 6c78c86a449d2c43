"""Work on other CUDA streams, by a library that stands in for the driver."""

import ctypes

from conformance.hardware import cuda_streams
from conformance.hardware.background_work import BackgroundWork, WorkKind


class Library:
    """Stands in for the driver and lists the calls."""

    def __init__(self, refused=None):
        self.calls, self.refused, self.handles = [], refused, 0

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*arguments):
            assert len(arguments) == len(function.argtypes)
            for argument, kind in zip(arguments, function.argtypes, strict=True):
                kind.from_param(argument)  # ctypes converts it like this
            self.calls.append((name, arguments))
            if name in {"cuStreamCreate", "cuMemAlloc_v2", "cuDevicePrimaryCtxRetain"}:
                self.handles += 1
                arguments[0]._obj.value = self.handles * 4096
            return 2 if name == self.refused else 0

        return function


def value(argument):
    return getattr(argument, "value", argument)


def test_a_step_fills_and_copies_within_the_buffers_of_each_stream():
    library = Library()
    step = cuda_streams.stream_work(0, library)()
    library.calls.clear()
    step()
    names = [name for name, _ in library.calls]
    assert names[:2] == ["cuMemsetD32Async", "cuMemcpyDtoDAsync_v2"]
    assert names[-2:] == ["cuStreamSynchronize"] * 2
    fills = [arguments for name, arguments in library.calls if name == "cuMemsetD32Async"]
    copies = [arguments for name, arguments in library.calls if name == "cuMemcpyDtoDAsync_v2"]
    assert len({value(arguments[3]) for arguments in fills}) == 2
    assert len({arguments[2] for arguments in fills}) > 10
    assert all(0 < arguments[2] * 4 <= cuda_streams.BUFFER_BYTES for arguments in fills)
    assert [copy[2] for copy in copies] == [fill[2] * 4 for fill in fills]
    assert all(value(copy[1]) != value(copy[0]) for copy in copies)


def test_a_call_that_the_driver_refuses_is_named():
    library = Library(refused="cuMemAlloc_v2")
    with (
        BackgroundWork([WorkKind("fills", cuda_streams.stream_work(0, library))]) as work,
        work.scope(),
    ):
        assert str(work) == (
            "nothing; without fills (DriverError: cuMemAlloc_v2 gave the status 2)"
        )


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setattr(cuda_streams, "_LIBRARY", "libno_such_driver.so")
    with BackgroundWork([WorkKind("fills", cuda_streams.stream_work(0))]) as work, work.scope():
        assert "without fills (OSError" in str(work)


def test_a_handle_goes_to_the_driver_as_an_address():
    stream = ctypes.c_void_p(2**40)
    assert cuda_streams._SIGNATURES["cuStreamSynchronize"][0].from_param(stream) is stream
