"""The checks of the repository: `nox` runs the default sessions, `nox -l` lists all.

Dependencies come from pyproject.toml. Arguments after `--` go to the tool that a session runs.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import nox

try:
    import fcntl
except ImportError:  # Windows, where only one session at a time may build the C++.
    fcntl = None  # type: ignore[assignment]

nox.needs_version = ">=2025.2.9"
# uv installs the packages of a session in a tenth of pip's time. It is used if it is installed.
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "conformance", "docs", "lint"]
# A session is skipped if its interpreter is not installed. `.ci/run` requires both interpreters.
nox.options.error_on_missing_interpreters = False
os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
# uv compiles no modules. Tests start many processes, and each would compile JAX anew, in two
# seconds, if none kept what it compiles.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PYPROJECT = nox.project.load_toml("pyproject.toml")

OLDEST = "3.11"
NEWEST = "3.12"
#: The jax of each interpreter: the oldest supported one, and the newest below the bound.
JAX = {OLDEST: ("jax==0.10.*", "jaxlib==0.10.*"), NEWEST: ("jax", "jaxlib")}
#: XLA cuts a program into pieces, for as many cores. The workers of a run leave no core idle.
ONE_PIECE = "--xla_cpu_parallel_codegen_split_count=1"
#: At this level XLA compiles in half the time. It contracts no product with a sum then; the tests
#: about that set a level of their own.
_LEAST = "--xla_backend_optimization_level=0"
#: Without emitters, the oldest JAX needs half of that time. It saves a tenth if it inlines calls
#: first, and not last; the newest JAX ends the process then, for the engine of integers. XLA checks
#: its own programs after each group of passes; the checks take a twentieth, and the newest JAX has
#: them.
CHEAPEST = (
    f"{_LEAST} --xla_cpu_use_fusion_emitters=false {ONE_PIECE} "
    "--xla_cpu_opt_preset=FAST_COMPILE --xla_disable_hlo_passes=hlo-verifier"
)
#: Variables that save time in tests. JAX removes its own frames from each traceback, and compares
#: files for that, which takes a tenth of a run in which many calls are refused. No program has the
#: lines of its source, which cost as much. glibc takes large pages for what it allocates, which
#: saves a thirtieth; other C libraries ignore its variable.
FASTER = {
    "JAX_TRACEBACK_FILTERING": "off",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
#: The unit tests that a release of JAX may break. They test the code that reads JAX's internals,
#: the rules, kernels and partitions that JAX calls, and the bits under `portable`. Products of
#: matrices, and the programs on eight devices, stand for the exact engines. The suite tests each op
#: there.
RELEASES = [
    *("-m", "not stand_in and not once"),
    *(f"impl/tests/{room}" for room in ("core", "kernels", "mode", "portable")),
    *(f"impl/tests/{room}" for room in ("reading", "run_to_run")),
    *("impl/tests/native/test_units.py", "impl/tests/native/test_library.py"),
    *(f"conformance/tests/every_op/test_{name}.py" for name in ("transformations", "batches")),
    *(f"impl/tests/exact/test_{name}.py" for name in ("dot_general", "elementary")),
    *("impl/tests/programs/test_transforms.py", "impl/tests/test_accumulator.py"),
    *(f"impl/tests/test_{name}.py" for name in ("import", "jax", "random", "testing")),
    "impl/tests/test_without_triton.py",
    *("conformance/tests/lab/portable", "conformance/tests/lab/readers"),
]
#: A contributor's loop: the spec, the mode, the main exact engines, the rules of `portable`, and
#: each op of the public API.
QUICK = [
    *("spec/tests", "impl/tests/core", "impl/tests/mode"),
    *("impl/tests/reading", "impl/tests/digests"),
    *(f"impl/tests/exact/test_{name}.py" for name in ("reduction", "dot_general", "elementary")),
    *(f"impl/tests/portable/test_{name}.py" for name in ("rules", "parts")),
    *("impl/tests/test_api.py", "impl/tests/test_modules.py"),
    "conformance/tests/every_op/test_bits.py",
]
#: The checks of the suite whose result may depend on the release of JAX, for one call of each code
#: and dtype. Kernels have unit tests on each release, so that their stand-ins on a CPU need no
#: second release. A race is a scatter: of a gradient, or of an op with one of these words in its
#: name.
_SCATTERS = "(backward or scatter or index or put or bincount or histc or bag or sparse)"
_RACES = f"test_no_race and not narrow and {_SCATTERS}"
_WORDS = f"(test_bits and not cuda) or test_fill or ({_RACES}) or test_promise"
BITS = ["--profile", "complete", "-m", "not once", "-k", _WORDS]


def with_newest(session: nox.Session) -> bool:
    """Returns whether this is the oldest interpreter and the newest is installed too."""
    return session.python == OLDEST and shutil.which(f"python{NEWEST}") is not None


def with_oldest(session: nox.Session) -> bool:
    """Returns whether this is the newest interpreter and the oldest is installed too."""
    return session.python == NEWEST and shutil.which(f"python{OLDEST}") is not None


#: CMake builds the C++ of the engine `native` here, and compiles a file again if it has changed.
BUILDS = pathlib.Path("build").absolute()
#: XLA refuses a library with newer headers than its own, so the oldest jaxlib gives them.
HEADERS = BUILDS / "headers"
#: The library in the checkout, on Linux, and what CMake makes it of.
LIBRARY = pathlib.Path("impl/_native/libsamebits_cpu.so")
SOURCES = ("src/*", "CMakeLists.txt", "programs.json")
#: An installation with these variables builds no library. One by `build_library` serves all
#: sessions.
WITHOUT_LIBRARY = {"SAMEBITS_NATIVE": "off"}


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits until no other session builds the C++."""
    BUILDS.mkdir(exist_ok=True)
    with (BUILDS / "lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cmake(session: nox.Session, folder: str, *options: str) -> pathlib.Path:
    """Builds the library of the engine `native` in a folder of `BUILDS`, and returns the folder.

    The options are of CMake, such as ``-DSAMEBITS_SANITIZERS=thread``.
    """
    if not HEADERS.exists():
        unpacked = BUILDS / "jaxlib"
        session.install("--no-deps", "--target", str(unpacked), *JAX[OLDEST][1:])
        shutil.copytree(unpacked / "jaxlib/include", HEADERS)
        shutil.rmtree(unpacked)
    if shutil.which("cmake") is None:
        session.install("cmake")
    build = BUILDS / folder
    configure = ("-S", "impl/_native", "-B", str(build), f"-DXLA_INCLUDE={HEADERS}")
    session.run("cmake", *configure, *options, external=True, silent=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    session.run("cmake", "--build", str(build), "--parallel", str(cores), external=True)
    return build


def build_library(session: nox.Session) -> None:
    """Builds the library of the engine `native` in the checkout, for all interpreters.

    It needs a C++ compiler. ``SAMEBITS_NATIVE=off`` leaves the library out.
    """
    if os.environ.get("SAMEBITS_NATIVE") in {"off", "0"}:
        return
    with one_at_a_time():
        sources = [file for name in SOURCES for file in LIBRARY.parent.glob(name)]
        newest = max(file.stat().st_mtime for file in sources)
        if LIBRARY.exists() and LIBRARY.stat().st_mtime > newest:
            return
        build = cmake(session, "native")
        session.run("cmake", "--install", str(build), "--prefix", ".", external=True, silent=True)


def more_wheels() -> dict[str, str]:
    """Returns the variable that names to uv where pip finds more wheels, which uv does not read.

    PyTorch's wheel for CPUs may be there: it is a tenth of what the index gives, which brings the
    libraries of CUDA.
    """
    setting = (sys.executable, "-m", "pip", "config", "get", "global.find-links")
    found = os.environ.get("PIP_FIND_LINKS") or (
        subprocess.run(setting, check=False, capture_output=True, text=True).stdout
    )
    links = os.environ.get("UV_FIND_LINKS") or ",".join(found.split())
    return {"UV_FIND_LINKS": links} if links else {}


def install(session: nox.Session, *groups: str, native: bool = True) -> None:
    """Installs this checkout with the extra `data`, the jax of the interpreter, and groups."""
    packages = nox.project.dependency_groups(PYPROJECT, *groups)
    editable = ("--upgrade", "--editable", ".[data]", *JAX[str(session.python)], *packages)
    session.install(*editable, env={**WITHOUT_LIBRARY, **more_wheels()})
    if native:
        build_library(session)


def flags_of_suite(session: nox.Session) -> dict[str, str | None]:
    """Returns the options of XLA that save time in the suite where both interpreters are installed.

    The newest compiles the suite as it does for users, so that the oldest need not optimise: the
    suite compiles the stand-ins for a GPU at a level of its own, at which XLA contracts products.
    """
    if "XLA_FLAGS" in os.environ:
        return {}
    if with_oldest(session):
        return {"XLA_FLAGS": ONE_PIECE}
    return {"XLA_FLAGS": CHEAPEST} if with_newest(session) else {}


@nox.session(python=list(JAX))
def tests(session: nox.Session) -> None:
    """Runs the unit tests of spec, impl and conformance, in a random order."""
    # One interpreter suffices for the comparison with PyTorch's values. The example runs on the
    # oldest JAX, because XLA's sums depend on the number of threads there.
    # One suffices for the programs of other libraries too, which take a minute of one core.
    more = ["peer", "example", "programs"] if session.python == OLDEST else []
    install(session, "test", *more)
    chosen = session.posargs or (RELEASES if with_oldest(session) else [])
    # An editable installation has both names of the package.
    session.run("python", "-c", "import samebits, impl; assert samebits is impl")
    speed = ["-n", "auto", "--dist", "worksteal", "--durations", "10"]
    # The suite compiles as users do. At a higher level, XLA of the newest JAX takes ten minutes for
    # an exponential of the engine of integers.
    cheapest = CHEAPEST if session.python == OLDEST else f"{_LEAST} {ONE_PIECE}"
    environment = {
        **FASTER,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", cheapest),
        "OMP_NUM_THREADS": "1",
    }
    # PyTorch's threads wait in a loop, which takes longer than work on the small arrays of tests.
    session.run("pytest", *speed, *chosen, env=environment)


@nox.session(python=OLDEST, default=False)
def quick(session: nox.Session) -> None:
    """Checks the format, the lint rules and the rows, and runs a choice of unit tests: 3 minutes.

    It leaves the types to `nox -s lint`, and most tests to `nox -s tests`.
    """
    install(session, "lint")
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("python", "-m", "spec", "check")
    flags = os.environ.get("XLA_FLAGS", CHEAPEST)
    environment = {**FASTER, "XLA_FLAGS": flags, "OMP_NUM_THREADS": "1"}
    chosen = session.posargs or QUICK
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *chosen, env=environment)


@nox.session(python=list(JAX), default=False)
def without_triton(session: nox.Session) -> None:
    """Runs the unit tests and the suite as if JAX had no Triton backend of Pallas.

    The tests of kernels are skipped, and nothing else. Arguments choose unit tests, and leave the
    suite out.
    """
    install(session, "test", "example", "programs")
    plugin = ("-p", "conformance.pytest_plugin.without_triton")
    environment = {"XLA_FLAGS": _LEAST, "OMP_NUM_THREADS": "1"}
    speed = ["-n", "auto", "--dist", "worksteal"]
    session.run("pytest", *plugin, *speed, *session.posargs, env=environment)
    if not session.posargs:
        command = ("python", "-m", "conformance", "run", "--device", "cpu")
        session.run(*command, "--profile", "complete", *plugin)


@nox.session(python=list(JAX))
def conformance(session: nox.Session) -> None:
    """Runs the conformance suite on the CPU."""
    install(session, "test")
    chosen = session.posargs or (BITS if with_oldest(session) else [])
    command = ("python", "-m", "conformance", "run", "--device", "cpu")
    session.run(*command, *chosen, env={**FASTER, **flags_of_suite(session)})


#: The site changes with the code that it shows. A build writes the folders that are ignored.
SERVE = [
    *("sphinx-autobuild", "-n", "-b", "html", "-d", "docs/_build/doctrees"),
    *("-D", "op_examples=0"),  # The programs of the pages of ops take half a minute.
    *("--watch", "spec", "--watch", "impl", "--watch", "conformance"),
    *("--re-ignore", r"/docs/(_build|_data|_pictures|ops|primitives|profiles)/|/__pycache__/"),
    *("docs", "docs/_build/html"),
]


@nox.session(python=OLDEST)
def docs(session: nox.Session) -> None:
    """Builds the site into docs/_build/html, and tests that it shows the contents of the spec.

    The argument `serve` serves it instead, and builds it again after each change.
    """
    serve = session.posargs == ["serve"]
    install(session, "docs", "programs", "guides", *(["serve"] if serve else ["browser"]))
    if serve:
        session.run(*SERVE)
        return
    options = session.posargs or ["-n", "-W", "--keep-going", "-b", "html"]
    # Sphinx keeps the parsed pages outside of the site.
    options = [*options, "-d", "docs/_build/doctrees"]
    # The examples of the pages run while it is built.
    env = {"XLA_FLAGS": os.environ.get("XLA_FLAGS", CHEAPEST)}
    session.run("sphinx-build", *options, "docs", "docs/_build/html", env=env)
    # Each worker has a browser.
    tests = ("docs/tests", "--ignore=docs/tests/test_examples.py")
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *tests, env=env)


@nox.session(python=OLDEST)
def lint(session: nox.Session) -> None:
    """Checks the format, the lint rules, the types and the rows."""
    install(session, "lint", native=False)
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("mypy", *session.posargs)
    session.run("python", "-m", "spec", "check")
    for problem in rooms_above_budget(PYPROJECT["tool"]["samebits"]["lines"]):
        session.error(problem)


def rooms_above_budget(budgets: dict[str, int]) -> Iterator[str]:
    """Yields a sentence for each room with more lines of Python than its budget."""
    for room, most in budgets.items():
        paths = ["*/tests/*.py"] if room == "tests" else [f"{room}/*.py", f":!{room}/tests"]
        listed = subprocess.run(["git", "ls-files", *paths], check=True, capture_output=True)  # noqa: S607  # git is where the user has it.
        files = map(pathlib.Path, listed.stdout.decode().splitlines())
        lines = sum(file.read_bytes().count(b"\n") for file in files if file.exists())
        if lines > most:
            yield f"{room} has {lines} lines of Python; its budget in pyproject.toml is {most}"


@nox.session(python=OLDEST, default=False, reuse_venv=False)
def wheel(session: nox.Session) -> None:
    """Builds two wheels, one without a C++ compiler, and tests a few rows away from the checkout.

    The first one is built from the source distribution. A checkout without a library gets its own.
    """
    folder = pathlib.Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    build = ("python", "-m", "build", "--installer", "uv", "--outdir")
    with one_at_a_time():
        session.install("build[uv]")
        session.run(*build, str(folder / "native"))
        (with_library,) = (folder / "native").glob("*-py3-none-*.whl")
        if not LIBRARY.exists():
            with zipfile.ZipFile(with_library) as archive:
                archive.extract(LIBRARY.as_posix())
            LIBRARY.touch()
    session.run(*build, str(folder / "any"), "--wheel", env={"CXX": shutil.which("false")})
    (without,) = (folder / "any").glob("*-py3-none-any.whl")
    session.install(f"samebits[conformance] @ {with_library.as_uri()}")
    session.chdir(folder)
    is_available = "impl._native.library.is_available()"
    for available in (True, False):
        if not available:
            session.install("--force-reinstall", "--no-deps", str(without))
        session.run("samebits", "--version")
        for package in ("spec", "impl", "conformance", "samebits"):
            code = f"import sys, {package}; assert {package}.__file__.startswith(sys.prefix)"
            session.run("python", "-c", code)
        code = f"import impl._native.library; assert {is_available} is {available}"
        session.run("python", "-c", code)
        session.run("python", "-m", "spec", "export", "--format", "json", silent=True)
        # The words select an order, a fill, a promise, and the tests that the wheel lacks no case.
        # The suite needs jax and pytest alone.
        suite = ("python", "-m", "conformance")
        words = "(R0001 and floating) or R0164 or R0213 or op_exists or row_has_a_promise"
        few = ("--profile", "complete", "-k", words)
        session.run(*suite, "run", *few, "--report", f"{available}.json")
        session.run(*suite, "show", f"{available}.json")
    session.run(*suite, "diff", "True.json", "False.json")


@nox.session(python=OLDEST, default=False)
def native(session: nox.Session) -> None:
    """Tests the engine `native` with checks of addresses and of undefined behaviour in its C++.

    The argument `thread` looks for races of threads instead. The argument `aarch64` runs the tests
    that are C++ on a processor that QEMU emulates, compiled by aarch64-linux-gnu-g++. The argument
    `build` only builds the library in the checkout. Other arguments go to pytest.
    """
    if session.posargs == ["build"]:
        build_library(session)
        return
    if session.posargs == ["aarch64"]:
        with one_at_a_time():
            run_cpp_tests(session, cmake(session, "native-aarch64", *AARCH64))
        return
    install(session, "test", native=False)
    is_thread = session.posargs[:1] == ["thread"]
    chosen = session.posargs[1:] if is_thread else session.posargs
    checks = "thread" if is_thread else "address,undefined"
    with one_at_a_time():
        options = (f"-DSAMEBITS_SANITIZERS={checks}", "-DSAMEBITS_TESTS=ON")
        build = cmake(session, f"native-{checks.replace(',', '-')}", *options)
        run_cpp_tests(session, build)
    # Python was not linked with the sanitizer's library, which has to be the first. Python's own
    # leaks are no faults, and XLA, whose code has no checks, is no witness of a race.
    names = ("libtsan.so",) if is_thread else ("libasan.so", "libubsan.so")
    libraries = [shared_library(name) for name in (*names, "libstdc++.so")]
    # A fault ends the process that runs the test, and with it the output that pytest has captured.
    to_file = f"log_path={build / 'report'}:halt_on_error=1"
    for report in build.glob("report.*"):
        report.unlink()
    environment = {
        "LD_PRELOAD": " ".join(libraries),
        "SAMEBITS_NATIVE": str(build / "libsamebits_cpu.so"),
        "ASAN_OPTIONS": f"{to_file}:detect_leaks=0",
        "TSAN_OPTIONS": f"{to_file}:ignore_noninstrumented_modules=1",
        "UBSAN_OPTIONS": f"{to_file}:print_stacktrace=1",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", CHEAPEST),
    }
    speed = ("-n", "auto", "--dist", "worksteal")
    try:
        session.run("pytest", *speed, *(chosen or ["impl/tests/native"]), env=environment)
    finally:
        for report in build.glob("report.*"):
            session.log(report.read_text(encoding="utf-8"))


#: The options of CMake for another processor, on Debian and Ubuntu.
AARCH64 = (
    "-DSAMEBITS_TESTS=ON",
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
    "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static;-L;/usr/aarch64-linux-gnu",
)


def run_cpp_tests(session: nox.Session, build: pathlib.Path) -> None:
    """Runs the tests that are C++ of a build."""
    session.run("ctest", "--test-dir", str(build), "--output-on-failure", external=True)


def shared_library(name: str) -> str:
    """Returns the file of a library of the compiler."""
    command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@nox.session(python=NEWEST, default=False)
def gpu_compile(session: nox.Session) -> None:
    """Compiles every program for four GPUs, which are not needed, and reads the code.

    For two more, whose float64 is slow, it compiles programs under `portable`.
    """
    packages = nox.project.dependency_groups(PYPROJECT, "gpu", "test")
    session.install("--upgrade", "--editable", ".", *packages, env=WITHOUT_LIBRARY)
    session.run("python", "-m", "conformance", "compile", *session.posargs)
    if not session.posargs:
        session.run("python", "-m", "conformance.lab.portable.code")


@nox.session(python=NEWEST, default=False)
def tpu_compile(session: nox.Session) -> None:
    """Compiles portable programs for two TPUs, which are not needed, and reads the programs.

    Arguments such as `--only product --chips v5e` keep to a part, and `--report FILE` keeps the
    records.
    """
    packages = nox.project.dependency_groups(PYPROJECT, "tpu")
    session.install("--upgrade", "--editable", ".", *packages, env=WITHOUT_LIBRARY)
    session.run("python", "-m", "conformance.lab.compiled.tpu", *session.posargs)


@nox.session(python=OLDEST, default=False)
def exhaustive(session: nox.Session) -> None:
    """Tries every float32 in the elementary functions, against correctly rounded values.

    A value in float64 of NumPy or SciPy decides, or mpmath where it is too near the middle of two
    float32. No result may be wrong, and where products are not sealed, contraction may change none.
    With two cores, each function takes about a minute; arguments are names of functions, `--jobs N`
    for fewer processes, and `--stride N` to try one block in N.
    """
    install(session, "reference")
    session.run("python", "-m", "conformance.lab.elementary.exhaustive", *session.posargs)


@nox.session(python=OLDEST, default=False)
def mutants(session: nox.Session) -> None:
    """Makes deliberate faults in copies of this checkout; the tests have to find each of them."""
    install(session, "test", "docs", "programs", native=False)
    if shutil.which("cmake") is None:
        session.install("cmake")
    at_once = ("-n", "auto", "--dist", "loadgroup", "--tb=short", "--durations=10")
    session.run("pytest", *at_once, "conformance/lab/mutants", *session.posargs)


@nox.session(python=OLDEST, default=False)
def releases(session: nox.Session) -> None:
    """Lists the functions of JAX that the oldest and the newest release write otherwise.

    The newest interpreter is the one of `nox -s tests`. The argument `--python OTHER` names
    another.
    """
    install(session, "test")
    other = pathlib.Path(".nox", f"tests-{NEWEST.replace('.', '-')}", "bin", "python")
    chosen = session.posargs or ["--python", str(other)]
    session.run("python", "-m", "conformance.hunt.releases", *chosen, env={"XLA_FLAGS": _LEAST})


@nox.session(python=OLDEST, default=False)
def hunt(session: nox.Session) -> None:
    """Draws strange programs for ten minutes, and shrinks those that show a fault to a file.

    The newest interpreter of `nox -s tests` takes part if it is installed. Arguments such as
    `--minutes 300 --seed 7` replace the ten minutes.
    """
    install(session, "test", "programs")
    other = pathlib.Path(".nox", f"tests-{NEWEST.replace('.', '-')}", "bin", "python")
    newest = ["--python", str(other.absolute())] if other.exists() else []
    session.run("python", "-m", "conformance", "hunt", *newest, *session.posargs)


@nox.session(python=OLDEST, default=False)
def bench(session: nox.Session) -> None:
    """Compares the cost of the ordered path with plain JAX and PyTorch."""
    install(session, "peer", "programs")
    session.run("python", "-m", "conformance", "bench", *session.posargs)


@nox.session(python=OLDEST, default=False)
def peer(session: nox.Session) -> None:
    """Runs the conformance suite on PyTorch, of the release that values are compared with."""
    install(session, "test", "peer")
    namespace = ("--namespace", "conformance.adapters.torch")
    session.run("python", "-m", "conformance", "run", *namespace, *session.posargs)
