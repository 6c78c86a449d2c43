"""The build backend: scikit-build-core, with editable installations that have no import hook.

An editable wheel of scikit-build-core has a module that Python imports when it starts. It finds
each package in this checkout, and hides the packages of another checkout in the current folder,
such as a copy with a deliberate fault. Pytest warns of it on every run, because samebits has a
plugin, and this module of it is imported before pytest. The list of folders suffices::

    _editable_skbc_samebits.py     left out
    _editable_skbc_samebits.pth    import _editable_skbc_samebits    left out
                                   /home/me/samebits
                                   /home/me/samebits/impl/_alias

PEP 517 and PEP 660 name these functions.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import zipfile

from scikit_build_core import build
from scikit_build_core.build import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, list[str] | str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds an editable wheel, and returns its name.

    Args:
        wheel_directory: The folder to write it to.
        config_settings: Settings of scikit-build-core.
        metadata_directory: None, because nothing prepares the metadata.
    """
    name = build.build_editable(wheel_directory, config_settings, metadata_directory)
    wheel = pathlib.Path(wheel_directory, name)
    with zipfile.ZipFile(wheel) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in without_hook(files).items():
            archive.writestr(path, content)
    return name


def without_hook(files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the files of an editable wheel, less those that Python would run when it starts.

    Args:
        files: The contents of each file, by its path.
    """
    rest: dict[str, bytes] = {}
    for path, content in files.items():
        if path.endswith(".dist-info/RECORD"):
            record = path
        elif path.endswith(".pth"):
            lines = content.decode().splitlines(keepends=True)
            folders = dict.fromkeys(line for line in lines if not line.startswith("import "))
            rest[path] = "".join(folders).encode()
        elif "/" in path or not path.endswith((".py", ".start")):
            rest[path] = content
    rest[record] = "".join([*map(_line, rest.items()), f"{record},,\n"]).encode()
    return rest


def _line(file: tuple[str, bytes]) -> str:
    """Returns the line of a file in RECORD."""
    path, content = file
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"
