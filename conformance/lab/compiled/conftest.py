"""The GPUs to compile for, and the folder of this process in which XLA writes the kernels."""

from __future__ import annotations

import pytest

from conformance.lab.compiled import PROGRAM_TARGETS, TARGETS, compiler, programs
from conformance.lab.compiled.test_compiled import calls_of_rows
from spec import gpus


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the GPUs."""
    parser.addoption("--target", action="append", choices=gpus.NAMES, help="a GPU to compile for")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark by which one process compiles what several tests share."""
    config.addinivalue_line("markers", "xdist_group(name): tests that run in one worker")


@pytest.fixture(scope="session", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    compiler.prepare(tmp_path_factory.mktemp("kernels"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives the tests each row and program, for each GPU of the command line; or for all."""
    targets = metafunc.config.getoption("--target") or (*TARGETS, *PROGRAM_TARGETS)
    of_rows = [target for target in dict.fromkeys(targets) if target in TARGETS]
    if "calls" in metafunc.fixturenames:
        parameters = [
            # One process gets all rows of an op, whose calls share programs.
            pytest.param(
                calls,
                target,
                id=f"{name}-{target}",
                marks=pytest.mark.xdist_group(f"{calls[0].op} {target}"),
            )
            for name, calls in calls_of_rows().items()
            for target in of_rows
        ]
        metafunc.parametrize(("calls", "target"), parameters)
    elif "name" in metafunc.fixturenames:
        parameters = [
            pytest.param(name, target, id=f"program-{name.replace(' ', '_')}-{target}")
            for name, budgets in programs.BUDGETS.items()
            for target in budgets
            if target in targets
        ]
        metafunc.parametrize(("name", "target"), parameters)
    else:
        metafunc.parametrize("target", of_rows)
