"""The digests of one run of a program, and the file in which another process reads them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from impl.programs._differences.comparison import Words
from impl.programs._differences.marks import Mark, Marks, Node

#: The first entry of a file of ``Recording.save``: it changes when the form of the file does.
SCHEMA = 2


@dataclasses.dataclass(frozen=True)
class Recording:
    """The digests of one run of a program, to compare with another run later.

    Attributes:
        marks: The equations whose outputs have a digest: "arithmetic", "equations" or "calls".
        setting: The releases and the device of the run, in words.
        mode: The mode of the run, in words.
        nodes: The marks.
        words: Their digests.
        outputs: The digests of the outputs of a run without marks; none if there was no such run.
    """

    marks: Marks
    setting: str
    mode: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)
    words: Words = dataclasses.field(repr=False)
    outputs: Words = dataclasses.field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording to a file, in NumPy's format ``npz``."""
        data = {
            "schema": SCHEMA,
            "marks": self.marks,
            "setting": self.setting,
            "mode": self.mode,
            "nodes": [dataclasses.asdict(node) for node in self.nodes],
        }
        with Path(path).open("wb") as file:
            np.savez_compressed(
                file, header=np.array(json.dumps(data)), words=self.words, outputs=self.outputs
            )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Reads a file that ``save`` wrote.

        Raises:
            ValueError: The file has another schema.
        """
        with np.load(path, allow_pickle=False) as file:
            data = json.loads(str(file["header"]))
            if data["schema"] != SCHEMA:
                raise ValueError(
                    f"{path} has the schema {data['schema']} of recordings, and this release of "
                    f"samebits reads {SCHEMA}: record it again"
                )
            nodes = tuple(map(_node, data["nodes"]))
            words, outputs = file["words"], file["outputs"]
            return Recording(data["marks"], data["setting"], data["mode"], nodes, words, outputs)


def setting() -> str:
    """Returns the release of JAX and the default device, in words."""
    device = jax.devices()[0]
    return f"jax {jax.__version__} on {device.platform} ({device.device_kind})"


def _node(data: dict[str, Any]) -> Node:
    mark: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.pop("mark").items()}
    return Node(Mark(**mark), inner=tuple(map(_node, data.pop("inner"))), **data)
