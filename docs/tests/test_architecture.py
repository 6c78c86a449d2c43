"""The page of the architecture against the repository."""

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

#: Changes, and the file in which each begins.
BEGINS = {
    "A row: the behaviour of an op under a profile": "spec/rows/index_add.toml",
    "A fact: a property of a call that rows can ask for, and its English": "spec/facts.toml",
    "The sentence of an order, or its numbers": "spec/orders.toml",
    "A new PyTorch release as a profile": "spec/profiles.toml",
    "A device, or the platforms of JAX that belong to it": "spec/devices.toml",
    "A new op": "spec/rows/index_add.toml",
    "The message of an alert": "impl/_mode/alert.py",
    "A check of arguments, or its message": "impl/_core/arguments.py",
    "The sequence in which a scatter adds or multiplies on a GPU": "impl/_run_to_run/ordered.py",
    "A wrong bit in a sum, a scatter, or a gradient that adds, as of `avg_pool2d`": (
        "impl/_portable/rules/sums.py"
    ),
    "A wrong bit in a running sum, or in `lax.cumprod` or `lax.cumlogsumexp`": (
        "impl/_portable/rules/sums.py"
    ),
    "The sums that a `scan` carries, and `impl.Accumulator`": "impl/accumulator.py",
    "A kernel backend": "impl/_kernels/triton.py",
    "The state of the mode, or its arguments": "impl/_mode/modes.py",
    "The keys that a seed gives": "impl/random.py",
    "A thing that the doctor looks at": "impl/diagnosis/settings.toml",
    "A sample of the suite": "conformance/cases/writes.py",
    "An adapter for another library": "conformance/adapters/base.py",
    "A known failure": "conformance/adapters/torch-expectations.toml",
    "The definition of a race in machine code, or a GPU to compile for": "spec/gpus/h100.txtpb",
    "The form of rows on the site": "docs/_templates/rows.md",
    "The effect of the mode on a primitive of JAX": "spec/rows/jax/scatter.toml",
    "A fact that the audit or a rule should prove": "impl/_reading/facts.py",
    "A session of nox, or the JAX that it installs": "noxfile.py",
    "A wrong bit in a product or a convolution": "impl/_portable/rules/products.py",
    "An elementary function, such as `erf_inv`": "impl/_exact/elementary/special_functions.py",
    "An engine: another approximation of a product, as on a device without float64": (
        "spec/engines.toml"
    ),
    "The engine `native`: its build, its library, its C++": "pyproject.toml",
    "A new primitive of JAX under `portable`": "spec/portable.toml",
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


def test_page_names_the_file_in_which_a_change_begins() -> None:
    named = {change: files_of(files) for change, files in change_rows().items()}
    assert [change for change, file in BEGINS.items() if file not in named[change]] == []
    assert [change for change, files in named.items() if not files] == []


def test_page_names_each_room() -> None:
    assert [room for room in rooms() if f"`{room}`" not in PAGE] == []


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
