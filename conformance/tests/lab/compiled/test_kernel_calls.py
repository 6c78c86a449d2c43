"""Every kernel has calls that are compiled without an op."""

import importlib
import inspect
import pkgutil

import impl._kernels
from conformance.lab.compiled.kernel_calls import kernel_calls


def test_every_kernel_has_calls():
    names = [module.name for module in pkgutil.iter_modules(impl._kernels.__path__)]
    kernels = {
        f"{name}.{function_name}"
        for name in names
        if not name.startswith("_")  # These have parts of kernels.
        for function_name, function in vars(
            importlib.import_module(f"impl._kernels.{name}")
        ).items()
        if inspect.isfunction(function)
        and function.__module__ == f"impl._kernels.{name}"
        and not function_name.startswith("_")
        and "launch" in inspect.signature(function).parameters
    }
    calls = list(kernel_calls())
    assert {call.kernel for call in calls} == kernels
    assert len({str(call) for call in calls}) == len(calls)


def test_no_two_calls_are_one_program():
    # XLA's code of a program that JAX has compiled before is not kept, and would count as lost.
    calls = [(call.kernel, repr(call.call), call.inputs) for call in kernel_calls()]
    assert len(set(calls)) == len(calls)
