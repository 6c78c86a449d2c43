"""The command line of the implementation: ``python -m impl``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    status: int = options.run()
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m impl", description="Deterministic operations for JAX."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="show the mode at work, in under a minute")
    demo.set_defaults(run=_demo)
    return parser


def _demo() -> int:
    from impl import demo  # noqa: PLC0415  # Only here is what a command needs worth loading.

    return demo.run(sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
