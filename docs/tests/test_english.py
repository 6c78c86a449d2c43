"""The tics that make a reader read a sentence twice are in no comment, docstring, message or page.

CONTRIBUTING has the rules. A regular expression finds only the frequent faults, so a text that
passes may still be hard to read.
"""

import ast
import functools
import io
import re
import subprocess
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import spec

ROOT = Path(__file__).parents[2]

#: The noun, without "in place", "last place", "takes place" and "takes the place of".
PLACE = "".join(
    f"(?<!{word} )" for word in ("in", "last", "take", "takes", "take the", "takes the")
)
PLACE += r"\b[Pp]laces?\b(?! the array)"

#: A tic, its pattern in a sentence of plain words, and the cure.
TICS = [
    ("that of", r"\b([Tt]hat|[Tt]hose) of\b", "repeat the noun: 'the sum of', 'the rows of'"),
    (
        "What ...",
        r"(?:^|(?<=[.;:] ))What\b(?![^.]*\?)",
        "begin with the noun that the sentence is about",
    ),
    (
        "what is",
        r"\bwhat (?:is|are|was|were|has|have|had|does|no)\b(?![^.]*\?)",
        "name the thing: 'the values that are', 'operations without'",
    ),
    (
        "is none",
        r"(?<![Tt]here )\b(?:is|are|was|were|be) none\b",
        "write 'is not a', 'is not one of'",
    ),
    ("so many", r"\b[Ss]o many\b(?!(?: \w+){1,4} that\b)", "name the number: '`width` bits'"),
    ("beside", r"\b[Bb]eside\b", "write 'next to', 'near', 'with', 'besides' or 'compared with'"),
    ("nobody has", r"\b[Nn]obody has\b", "name who or what has not: 'it is not classified in'"),
    ("no otherwise", r"\b(?:no|not) otherwise\b", "write 'the same way', 'differently'"),
    ("of which there", r"\bof which there\b", "write a second sentence"),
    ("as many ... on", r"\bas many \w+ (?:on|further)\b", "write a number: 'k entries further on'"),
    ("the others", r"\b[Tt]he others\b", "name them: 'the other devices'"),
    ("place", PLACE, "write index, slot, position or line"),
]

#: Orders that a sentence names: "the order `nearest`", "the orders `source` and `last_write`".
NAMED_ORDERS = r"(?:[Tt]he|[Aa]n|in|by|'s) orders? (?:\[?`+\w+`+[^\s`]*(?:,? (?:and|or))? ?)+"

#: Files that hold texts of others, or that a command writes, and why they are not read.
SKIPPED = {
    "spec/releases_of_jax.toml": "`nox -s releases` writes it",
    "docs/_build/": "the build writes it",
    "docs/tests/test_english.py": "it quotes the tics",
}

#: Keys of TOML files whose texts quote code or the documents of others.
QUOTES = {"find", "replace", "phrase", "command", "source", "quote", "title", "in_torch"}

#: Sentences that have to be as they are, with the reason, by file.
EXEMPT: dict[str, dict[str, str]] = {
    "impl/nn/functional/_max_pools.py": {
        "Expected shape of indices to be same as that of the input": "PyTorch's message"
    },
}


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yields blocks of comments, and strings of four words or more, with their first lines."""
    last, start, block = -1, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("#: ")
        own = token.line.lstrip().startswith("#")
        if own and token.start[0] == last + 1:
            block += "\n" + text
        else:
            if block:
                yield start, block
            start, block = token.start[0], text
        last = token.start[0] if own else -1
    if block:
        yield start, block
    parts_of_others: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts_of_others.update(node.values)
            parts = [p.value if isinstance(p, ast.Constant) else "x" for p in node.values]
            text = "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in parts_of_others
        ):
            text = node.value
        else:
            continue
        if len(text.split()) >= 4:
            yield node.lineno, text


def texts_of_toml(source: str) -> Iterator[tuple[int, str]]:
    """Yields comments and the strings of keys that do not quote, with their lines."""

    def strings(value: object, key: str = "") -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from strings(item, key)
        elif isinstance(value, dict):
            for name, item in value.items():
                if name not in QUOTES:
                    yield from strings(item, name)

    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("#"):
            yield number, line.lstrip("#: ")
    escaped = source.replace('\\"', '"')
    for text in strings(tomllib.loads(source)):
        if len(text.split()) >= 4:
            first = text.strip().splitlines()[0][:60]
            yield escaped[: max(0, escaped.find(first))].count("\n") + 1, text


def texts_of_markdown(source: str) -> Iterator[tuple[int, str]]:
    """Yields paragraphs, items and rows of tables, without code, quotations and headings."""
    start, block, fence = 0, "", ""
    for number, line in enumerate([*source.splitlines(), ""], 1):
        bare = line.strip()
        # A directive such as ```{glossary} may hold prose; a block of code names its language.
        mark = re.match(r"(`{3,})\w|`{3,}|:{3,}", bare)
        if mark:
            fence = fence if fence and bare != fence else "" if fence else mark[1] or ""
            bare = ""
        ends = not bare or fence or re.match(r"#|>|[-*|] |\d+\. ", bare)
        if ends and block:
            yield start, block
            block = ""
        if bare and not fence and not re.match(r"[#>]|\[`", bare):
            start, block = (start if block else number), f"{block}\n{bare.lstrip('-*|: ')}"


TEXTS = {".py": texts_of_python, ".toml": texts_of_toml, ".md": texts_of_markdown}


def room_of(path: str) -> str:
    """Returns the room of a file: two folders of its path, or three under `tests` and `lab`."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 3 if {"tests", "lab"} & set(folders[:2]) else 2]) or "."


@functools.cache
def files() -> dict[str, list[str]]:
    """Returns the files that git knows or would add, by room."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rooms = defaultdict(list)
    for path in sorted(set(listed.stdout.splitlines())):
        read = Path(path).suffix in TEXTS and not path.startswith(tuple(SKIPPED))
        if read and (ROOT / path).is_file():
            rooms[room_of(path)].append(path)
    return rooms


def faults(path: str) -> Iterator[str]:
    """Yields a line for each tic, and each unknown order, in a file: where it is, and the cure."""
    source = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        source = re.sub(r'"[^"\n|]+"', '""', source)  # A quotation.
    if path.endswith("CHANGELOG.md"):
        source = re.split(r"^## (?!.*[Uu]nreleased)", source, maxsplit=1, flags=re.MULTILINE)[0]
    for line, text in TEXTS[Path(path).suffix](source):
        words = re.sub(r"`+[^`]+`+", lambda code: "`x`" + "\n" * code[0].count("\n"), text)
        flat = " ".join(words.split())
        for named in re.finditer(NAMED_ORDERS, " ".join(text.split())):
            for name in set(re.findall(r"`(\w+)`", named[0])) - set(spec.load().orders):
                yield f"{path}:{line}: spec/orders.toml has no order '{name}': name another one"
        starts = [word.start() for word in re.finditer(r"\S+", words)]
        for tic, pattern, cure in TICS:
            for match in re.finditer(pattern, flat):
                around = flat[max(0, match.start() - 40) : match.end() + 40]
                if any(sentence in " ".join(text.split()) for sentence in EXEMPT.get(path, ())):
                    continue
                index = len(flat[: match.end()].split()) - len(match[0].split())
                at = line + words.count("\n", 0, starts[index])
                yield f"{path}:{at}: '{tic}' in '...{around}...': {cure}"


@pytest.mark.parametrize("room", sorted(files()))
def test_room_has_no_tics(room: str) -> None:
    found = [fault for path in files()[room] for fault in faults(path)]
    assert not found, "\n".join(found)
