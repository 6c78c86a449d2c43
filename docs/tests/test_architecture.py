"""The page of the architecture against the repository, and as answers to a stranger's questions."""

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: The folder of ``impl`` in which a file has the name of its op, and the folder of tests.
NAMED_BY_OPS = ("impl/sparse/", "impl/tests/")
TOP = ("spec", "impl", "conformance", "docs")

#: Questions of a stranger: a change, the row of the page that is about it, and the files to name.
QUESTIONS = [
    (
        "torch.index_add should raise under the profile of PyTorch 2.12",
        "A row: the behaviour of an op under a profile",
        ["spec/rows/index_add.toml", "spec/ids.toml", "spec/locks.toml", "spec/data.toml"],
    ),
    (
        "rows should be able to ask whether an argument `alpha` is 1",
        "A fact: a property of a call that rows can ask for, and its English",
        ["spec/facts.toml", "impl/ops/_scatters.py"],
    ),
    (
        "rotations should end after 40 sweeps",
        "The sentence of an order, or its numbers",
        ["spec/orders.toml", "spec/oracles/rotations.py"],
    ),
    (
        "PyTorch 2.16 is out, and its lists should be a profile",
        "A new PyTorch release as a profile",
        ["spec/profiles.toml", "spec/rows/index_add.toml", "spec/locks.toml"],
    ),
    (
        "rows should speak of TPUs",
        "A device, or the platforms of JAX that belong to it",
        ["spec/devices.toml", "impl/_run_to_run/rules.py"],
    ),
    (
        "torch.renorm should exist",
        "A new op",
        [
            "spec/rows/index_add.toml",
            "impl/ops/_scatters.py",
            "impl/__init__.py",
            "impl/tests/ops/test_index_add.py",
            "conformance/cases/writes.py",
            "conformance/adapters/_torch_ops.py",
            "impl/tests/every_op/samples_of_ops.py",
            "spec/ids.toml",
            "spec/locks.toml",
            "spec/orders.toml",
            "CHANGELOG.md",
        ],
    ),
    (
        "a RuntimeError in the mode should name the documentation",
        "The message of an alert",
        ["impl/_mode/alert.py"],
    ),
    (
        "an index that is out of range should be reported in other words",
        "A check of arguments, or its message",
        ["impl/_core/arguments.py"],
    ),
    (
        "scatter_add should be faster on a GPU",
        "The sequence in which a scatter adds or multiplies on a GPU",
        ["impl/_run_to_run/ordered.py", "impl/_kernels/scatter_runs.py"],
    ),
    (
        "the gradient of avg_pool2d has a wrong bit",
        "A wrong bit in a sum, a scatter, or a gradient that adds, as of `avg_pool2d`",
        [
            "impl/_portable/rules/sums.py",
            "impl/_native/windows.py",
            "impl/_exact/sums/windows.py",
            "impl/nn/functional/_pools.py",
            "impl/nn/functional/_windows.py",
            "spec/oracles/nearest.py",
            "impl/tests/exact/test_windows.py",
            "impl/tests/nn/functional/test_pooling.py",
        ],
    ),
    (
        "lax.cumprod is wrong under portable",
        "A wrong bit in a running sum, or in `lax.cumprod` or `lax.cumlogsumexp`",
        [
            "impl/_portable/rules/sums.py",
            "impl/_exact/running/cumprod.py",
            "impl/ops/_running.py",
            "spec/orders.toml",
            "spec/oracles/scans.py",
            "impl/tests/exact/test_reduction.py",
        ],
    ),
    (
        "impl.Accumulator has a wrong sum",
        "The sums that a `scan` carries, and `impl.Accumulator`",
        [
            "impl/accumulator.py",
            "impl/_portable/carried_sums/functions.py",
            "impl/_portable/carried_sums/steps.py",
            "impl/_exact/unrounded/operations.py",
            "impl/_exact/unrounded/terms.py",
            "impl/_exact/unrounded/states.py",
            "impl/_native/states.py",
            "impl/tests/test_accumulator.py",
        ],
    ),
    (
        "kernels should be compiled by another backend than Triton",
        "A kernel backend",
        ["impl/_kernels/triton.py", "impl/_kernels/launch.py"],
    ),
    (
        "use_deterministic_algorithms should take one more argument",
        "The state of the mode, or its arguments",
        ["impl/_mode/modes.py"],
    ),
    (
        "a seed should give other keys",
        "The keys that a seed gives",
        ["impl/random.py", "impl/_threefry.py"],
    ),
    (
        "the doctor should warn about one more environment variable",
        "A thing that the doctor looks at",
        ["impl/diagnosis/settings.toml"],
    ),
    (
        "the suite should call index_add with a negative dimension",
        "A sample of the suite",
        ["conformance/cases/writes.py"],
    ),
    (
        "the suite should test TensorFlow",
        "An adapter for another library",
        ["conformance/adapters/base.py", "conformance/adapters/torch.py"],
    ),
    (
        "a failure of PyTorch is known, and should not fail a run",
        "A known failure",
        ["conformance/adapters/torch-expectations.toml"],
    ),
    (
        "programs should be compiled for one more GPU",
        "The definition of a race in machine code, or a GPU to compile for",
        ["spec/gpus/h100.txtpb"],
    ),
    (
        "the list of a profile should show the guarantee of each row",
        "The form of rows on the site",
        ["docs/_ext/spec_lists.py"],
    ),
    (
        "the mode should order one more scatter of jax.lax",
        "The effect of the mode on a primitive of JAX",
        [
            "spec/rows/jax/scatter.toml",
            "impl/_run_to_run/rules.py",
            "impl/_run_to_run/ordered.py",
        ],
    ),
    (
        "the audit should see that indices from jnp.unique differ",
        "A fact that the audit or a rule should prove",
        ["impl/_reading/facts.py", "impl/_reading/values.py"],
    ),
    (
        "the tests should run with a newer JAX",
        "A session of nox, or the JAX that it installs",
        ["noxfile.py"],
    ),
    (
        "a convolution has another bit on eight devices than on one",
        "A wrong bit in a product or a convolution",
        [
            "impl/_portable/rules/products.py",
            "impl/_exact/products/convolution.py",
            "impl/_exact/products/convolution_by_dots.py",
            "impl/_exact/products/dot_general.py",
            "impl/_exact/nearest/interval.py",
            "impl/_exact/nearest/repair.py",
            "impl/_exact/nearest/exact_sum.py",
            "impl/_core/devices.py",
            "impl/_portable/device_sums/lower_sums.py",
            "spec/orders.toml",
            "spec/oracles/nearest.py",
            "impl/tests/exact/test_convolution.py",
            "impl/tests/exact/sums_and_products_on_eight_devices.py",
            "conformance/lab/mutants/exact_products.toml",
        ],
    ),
    (
        "jax.lax.bessel_i0e should have a path under portable",
        "An elementary function, such as `erf_inv`",
        [
            "impl/_exact/elementary/error_functions.py",
            "impl/_exact/elementary/gamma.py",
            "impl/_exact/elementary/__init__.py",
            "impl/_exact/elementary/_coefficients.py",
            "conformance/lab/elementary/coefficients.py",
            "conformance/lab/elementary/reference.py",
            "spec/portable.toml",
            "spec/rows/jax/elementwise.toml",
            "impl/_portable/rules/functions.py",
            "impl/_portable/pins.py",
            "impl/tests/exact/test_elementary.py",
            "impl/tests/exact/elementary_digests.json",
            "conformance/lab/elementary/exhaustive.py",
            "impl/tests/portable/functions.toml",
            "conformance/lab/mutants/exact.toml",
        ],
    ),
    (
        "a TPU should add products on its own units",
        "An engine: another approximation of a product, as on a device without float64",
        [
            "spec/engines.toml",
            "impl/_soft_float64/engines.py",
            "impl/_soft_float64/products.py",
            "impl/_exact/products/dot_general.py",
            "impl/_exact/products/convolution.py",
            "impl/_exact/nearest/interval.py",
            "impl/_exact/arithmetic.py",
            "impl/testing.py",
            "spec/devices.toml",
            "spec/portable.toml",
            "impl/tests/exact/test_dot_general.py",
            "conformance/lab/mutants/exact_products.toml",
        ],
    ),
    (
        "the library should be compiled for one more vector unit",
        "The engine `native`: its build, its library, its C++",
        [
            "pyproject.toml",
            "noxfile.py",
            "impl/_native/CMakeLists.txt",
            "impl/_native/library.py",
            "impl/_native/src/vectors.h",
            "impl/_native/tests/test_numbers.cc",
            "impl/tests/native/test_library.py",
        ],
    ),
    (
        "jax.lax.approx_max_k should have a path under portable",
        "A new primitive of JAX under `portable`",
        [
            "spec/portable.toml",
            "spec/rows/jax/elementwise.toml",
            "impl/_portable/rule.py",
            "impl/_portable/lower.py",
            "impl/_portable/device_sums/sharding_rules.py",
            "impl/_soft_float64/operations.py",
            "conformance/hunt/coverage.toml",
            "impl/tests/portable/test_rules.py",
            "impl/tests/portable/functions.toml",
        ],
    ),
]
#: The files that the page about a new release of JAX names.
RELEASE_OF_JAX = {
    "pyproject.toml",
    "noxfile.py",
    "impl/_core/jax_internals/__init__.py",
    "impl/_core/jax_internals/parts.py",
    "impl/_core/jax_internals/releases.py",
    "impl/_kernels/pallas.py",
    "impl/_kernels/triton.py",
    "impl/_portable/pins.py",
    "spec/portable.toml",
    "spec/releases.toml",
    "spec/releases_of_jax.toml",
    "conformance/benchmarks/budgets.toml",
    "conformance/lab/compiled/compile_command.py",
    "conformance/reports/compiled.json",
    "conformance/reports/cpu.json",
}


def change_rows() -> dict[str, str]:
    """Returns the cell of files of each change in the tables of the page."""
    tables = PAGE.partition("## Where to change what")[2]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|.*\|$", tables, re.MULTILINE)
    return {change: files for change, files in rows if change not in ("Change", "---")}


def files_of(text: str) -> list[str]:
    """Returns the files that a text names, and the pages that it links, from the root."""
    named = [path for path in re.findall(r"`([\w./-]+)`", text) if (ROOT / path).is_file()]
    pages = re.findall(r"\[[^\]]+\]\(([\w./-]+\.(?:md|svg))\)", text)
    return [*named, *(f"docs/{page}" for page in pages)]


def rooms() -> list[str]:
    """Returns the folders of the packages that have files of their own."""
    return sorted(
        f"{package}/{folder.name}/"
        for package in ("spec", "impl", "conformance")
        for folder in (ROOT / package).iterdir()
        if folder.is_dir()
        and folder.name != "__pycache__"
        and any(p.is_file() and "__pycache__" not in p.parts for p in folder.rglob("*"))
    )


@pytest.mark.parametrize(("question", "change", "files"), QUESTIONS, ids=[q[0] for q in QUESTIONS])
def test_page_names_the_files_of_a_change(question: str, change: str, files: list[str]) -> None:
    named = files_of(change_rows()[change])
    assert set(files) <= set(named), f"if {question}: the page names {named}"


def test_page_about_releases_names_the_files() -> None:
    page = (ROOT / "docs" / "new-release-of-jax.md").read_text(encoding="utf-8")
    assert "docs/new-release-of-jax.md" in files_of(PAGE)
    assert set(files_of(page)) >= RELEASE_OF_JAX


@pytest.mark.parametrize("change", change_rows())
def test_each_change_has_a_file(change: str) -> None:
    assert files_of(change_rows()[change])


@pytest.mark.parametrize("room", rooms())
def test_page_names_each_room(room: str) -> None:
    assert f"`{room}`" in PAGE


@pytest.mark.parametrize("path", sorted({*files_of(PAGE), "docs/architecture.svg"}))
def test_linked_file_exists(path: str) -> None:
    assert (ROOT / path).is_file()


def modules() -> list[str]:
    """Returns the paths of the modules of impl, without ops and tests."""
    paths = (path.relative_to(ROOT).as_posix() for path in (ROOT / "impl").rglob("*.py"))
    return sorted(path for path in paths if not path.startswith(NAMED_BY_OPS))


def list_of_modules(room: Path) -> str:
    """Returns the text before the code of the file ``__init__.py`` of a room."""
    source = (room / "__init__.py").read_text(encoding="utf-8")
    first = next(iter(ast.parse(source).body[1:]), None)
    return source if first is None else "\n".join(source.splitlines()[: first.lineno - 1])


@pytest.mark.parametrize("path", modules())
def test_page_or_room_names_each_module(path: str) -> None:
    file = ROOT / path
    module = file.parent if file.name == "__init__.py" else file
    if f"`{path}`" in PAGE or f"`{module.relative_to(ROOT).as_posix()}/`" in PAGE:
        return
    assert re.search(
        rf"``{module.stem}``|^{module.stem}  ", list_of_modules(module.parent), re.MULTILINE
    )


def test_each_path_exists() -> None:
    paths = [
        p for p in re.findall(r"`([\w./-]+)`", PAGE) if p.partition("/")[0] in TOP and "/" in p
    ]
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_each_name_is_in_its_file() -> None:
    sentences = re.sub(r"\s+", " ", PAGE)
    pairs = re.findall(r"`(\w+)` in `([^`/]+/[^`]+)`", sentences)
    assert len(pairs) > 20
    for name, path in pairs:
        text = (ROOT / path).read_text(encoding="utf-8")
        defined = rf"^ *(def|class) {name}\b|^{name}\b.* = |^\[{name}\]"
        assert re.search(defined, text, re.MULTILINE), f"{name} in {path}"


def test_picture_names_folders_that_exist() -> None:
    namespace = "{http://www.w3.org/2000/svg}"
    picture = ET.parse(ROOT / "docs" / "architecture.svg").getroot()
    assert picture.find(f"{namespace}title") is not None
    assert picture.find(f"{namespace}desc") is not None
    words = " ".join(text.text or "" for text in picture.iter(f"{namespace}text")).split()
    folders = {word.strip("/") for word in words if word.endswith("/")}
    known = {*TOP, *(room.split("/")[1] for room in rooms())}
    assert len(folders) > 10
    assert folders - known == set()
