"""What is checked, and how: `nox` runs the default sessions, `nox -l` lists all.

Dependencies come from pyproject.toml. Arguments after `--` go to the tool that a session runs.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import nox

nox.needs_version = ">=2025.2.9"
# uv, where it is installed, installs the same packages in a tenth of the time.
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "conformance", "docs", "lint"]
# An interpreter that is not there is skipped, also where CI is set; .ci/run asks for both.
nox.options.error_on_missing_interpreters = False

PYPROJECT = nox.project.load_toml("pyproject.toml")

OLDEST = "3.11"
NEWEST = "3.12"
#: The jax of each interpreter: the oldest supported one, and the newest below the bound.
JAX = {
    OLDEST: ("jax==0.10.*", "jaxlib==0.10.*"),
    NEWEST: ("jax", "jaxlib"),
}
#: Has the oldest JAX compile in half the time. At level 0, products and sums that could be one
#: operation are left as they are: what guards against that would go untested.
CHEAP = "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"
#: What of conformance may depend on JAX.
BITS = ["--profile", "complete", "-k", "test_bits or test_fill or test_no_race or test_promise"]


def with_newest(session: nox.Session) -> bool:
    """Whether this is the oldest of two interpreters, of which the newest does the most."""
    return session.python == OLDEST and shutil.which(f"python{NEWEST}") is not None


def with_oldest(session: nox.Session) -> bool:
    """Whether this is the newest of two interpreters, of which the oldest has tried the rest."""
    return session.python == NEWEST and shutil.which(f"python{OLDEST}") is not None


def install(session: nox.Session, *groups: str) -> None:
    """Installs this checkout, the jax that goes with the interpreter, and dependency groups.

    The extra `data` comes along, as tests need it; `wheel` does without.
    """
    packages = nox.project.dependency_groups(PYPROJECT, *groups)
    session.install("--upgrade", "--editable", ".[data]", *JAX[str(session.python)], *packages)


@nox.session(python=list(JAX))
def tests(session: nox.Session) -> None:
    """The unit tests of spec, impl and conformance."""
    # Values are compared with PyTorch's once: the interpreters differ in JAX, not in values. The
    # example is tried there too, where XLA's sums depend on the number of threads.
    more = ["peer", "example"] if session.python == OLDEST else []
    install(session, "test", *more)
    # The newest compiles as for users, and so does conformance on both where bits count: here the
    # oldest shows that what holds does not depend on how XLA optimises.
    env = {"XLA_FLAGS": CHEAP} if with_newest(session) and "XLA_FLAGS" not in os.environ else {}
    # What does not depend on JAX is tried once, and what stands in for a GPU by conformance too.
    less = (
        ["-m", "not stand_in and not once", "impl/tests", "conformance/tests"]
        if with_oldest(session)
        else []
    )
    # One of the two runs in a random order, whose seed is printed: no test may need another.
    order = [] if session.python == NEWEST else ["-p", "no:randomly"]
    speed = ["-n", "auto", "--dist", "worksteal", "--durations", "10"]
    session.run("pytest", *speed, *order, *(session.posargs or less), env=env)


@nox.session(python=list(JAX))
def conformance(session: nox.Session) -> None:
    """The conformance suite, on the CPU."""
    install(session, "test")
    # What a profile lists does not depend on JAX, nor do orders of programs: where the newest is
    # tried in all, one profile will do for the oldest, and the bits of it.
    rest = session.posargs or (BITS if with_newest(session) else [])
    session.run("python", "-m", "conformance", "run", "--device", "cpu", *rest)


@nox.session(python=OLDEST)
def docs(session: nox.Session) -> None:
    """The site, into docs/_build/html; then the check that it says what the spec says."""
    install(session, "docs")
    options = session.posargs or ["-n", "-W", "--keep-going", "-b", "dirhtml"]
    session.run("sphinx-build", *options, "docs", "docs/_build/html")
    session.run("pytest", "docs/tests", "--ignore=docs/tests/test_examples.py")


@nox.session(python=OLDEST)
def lint(session: nox.Session) -> None:
    """Format, lint, types, and the rows."""
    install(session, "lint")
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("mypy", *session.posargs)
    session.run("python", "-m", "spec", "check")


@nox.session(python=OLDEST, default=False, reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """The wheel works where there is no checkout, and tries a few rows there."""
    folder = session.create_tmp()
    shutil.rmtree(folder)
    session.install("hatchling")
    session.run("hatchling", "build", "--target", "wheel", "--directory", folder)
    (built,) = pathlib.Path(folder).glob("*.whl")
    session.install(f"samebits[conformance] @ {built.resolve().as_uri()}")
    session.chdir(folder)
    for package in ("spec", "impl", "conformance"):
        code = f"import sys, {package}; assert {package}.__file__.startswith(sys.prefix)"
        session.run("python", "-c", code)
    session.run("python", "-m", "spec", "export", "--format", "json", silent=True)
    # An order, a fill, a promise, and that everything there is to try came along. Beside jax it
    # needs pytest alone.
    suite = ("python", "-m", "conformance")
    words = "R0001 or R0164 or R0213 or op_exists or row_has_a_promise"
    few = ("--profile", "complete", "-k", words)
    session.run(*suite, "run", *few, "--report", "few.json")
    session.run(*suite, "show", "few.json")
    session.run(*suite, "diff", "few.json", "few.json")


@nox.session(python=NEWEST, default=False)
def gpu_compile(session: nox.Session) -> None:
    """Every program and kernel, compiled for GPUs that are not there; what is read is the code."""
    packages = nox.project.dependency_groups(PYPROJECT, "gpu")
    session.install("--upgrade", "--editable", ".", *packages)
    session.run("python", "-m", "conformance", "compile", *session.posargs)


@nox.session(python=OLDEST, default=False)
def mutants(session: nox.Session) -> None:
    """Breaks copies of this checkout on purpose; the tests have to find each breakage."""
    install(session, "test", "docs")
    session.run("python", "-m", "conformance.mutants", *session.posargs)


@nox.session(python=OLDEST, default=False)
def bench(session: nox.Session) -> None:
    """What the ordered path costs; with PyTorch beside it where it can be installed."""
    install(session, "peer")
    session.run("python", "-m", "conformance.benchmarks", *session.posargs)


@nox.session(python=OLDEST, default=False)
def peer(session: nox.Session) -> None:
    """The conformance suite on PyTorch itself, of the one release that values are compared with."""
    install(session, "test", "peer")
    namespace = ("--namespace", "conformance.adapters.torch")
    session.run("python", "-m", "conformance", "run", *namespace, *session.posargs)
