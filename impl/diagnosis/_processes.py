"""``impl.testing.assert_processes_agree``: whether processes compile the same program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np

from impl import programs
from impl.diagnosis import _program, _settings

#: Settings that belong to one process.
_OWN = frozenset({"CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "jax_default_device"})
#: A section of the doctor's report that changes no program.
_CACHES = "Caches"
#: The greatest length of a value in a message.
_SHOWN = 60


def assert_processes_agree() -> None:
    """Raises unless all processes of ``jax.distributed`` have the same mode, JAX and settings.

    Processes that differ compile different programs for the same arrays. They then wait for each
    other without end, or compute a result that no process alone would. Call it in every process,
    by the thread that computes, once the mode is set and before anything is computed: it waits for
    the other processes. In a single process it does nothing.

    It compares releases, the mode, the switches of backends, and the flags of XLA, variables and
    settings of JAX that the doctor knows; not the devices, seeds and caches.

    Raises:
        RuntimeError: The processes differ. The message has each difference, and is the same in
            every process.
    """
    if jax.process_count() == 1:
        return
    stated = [json.loads(text) for text in _from_all(json.dumps(_facts()))]
    differences = list(_differences(stated))
    if differences:
        lines = "\n".join(f"  {line}" for line in differences)
        raise RuntimeError(
            "assert_processes_agree(): these differ between the processes, so that they would "
            f"compile different programs:\n{lines}\nSet them alike in each process, before "
            "anything is computed."
        )


def _facts() -> dict[str, str | None]:
    """Returns the settings that have to be the same in each process, by name."""
    platform = jax.default_backend()
    items = (
        *_program.versions(),
        *_program.mode(platform),
        *_program.compiler(platform),
        *_settings.items(_settings.of_process(), platform),
    )
    facts = {i.name: i.value for i in items if i.section != _CACHES and i.name not in _OWN}
    return facts | {"rules for JAX's operations": "on" if programs.are_enabled() else "off"}


def _from_all(text: str) -> list[str]:
    """Returns the texts of all processes, in their order."""
    from jax.experimental import multihost_utils  # noqa: PLC0415  # Few programs need it.

    data = np.frombuffer(text.encode(), np.uint8)
    sizes = np.asarray(multihost_utils.process_allgather(np.int32(data.size)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: data.size] = data
    rows = np.asarray(multihost_utils.process_allgather(padded))
    return [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]


def _differences(stated: Sequence[Mapping[str, str | None]]) -> Iterator[str]:
    """Yields a line for each name whose value is not the same in all processes."""
    for name in dict.fromkeys(name for facts in stated for name in facts):
        found: dict[str, list[str]] = {}
        for process, facts in enumerate(stated):
            found.setdefault(_in_words(facts.get(name)), []).append(str(process))
        if len(found) > 1:
            parts = (f"{value} in {', '.join(of)}" for value, of in found.items())
            yield f"{name}, by the number of the process: {'; '.join(parts)}"


def _in_words(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
