"""``import samebits`` gives the module ``impl``: the distribution has two names for one package.

``samebits.X`` is ``impl.X`` for each name and each module, so that a program may use both names,
and no module is imported twice. An installation puts this folder on the path. Its files ``.pyi``
tell type checkers of the modules::

    import samebits as sb

    sb.use_deterministic_algorithms(True)
"""

import importlib
import runpy
import sys
from collections.abc import Sequence
from importlib import util
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

# The folder of impl is above this one in a checkout, and next to it in a wheel. A file impl.py of a
# user may be found in its stead: that is an error.
_FOLDERS = Path(__file__).resolve().parents
runpy.run_path(
    next(
        str(file)
        for folder in (_FOLDERS[2], _FOLDERS[1] / "impl")
        if (file := folder / "_shadowing.py").is_file()
    )
)

import impl  # noqa: E402  # The check comes first.

if TYPE_CHECKING:
    # Type checkers read names here. While a program runs, this would load modules that are imported
    # later.
    from impl import *  # noqa: F403
    from impl import __version__ as __version__


class _Modules(MetaPathFinder, Loader):
    """Finds ``samebits.X`` as the module ``impl.X``."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  # The path of impl.
        target: ModuleType | None = None,  # noqa: ARG002  # As above.
    ) -> ModuleSpec | None:
        """Returns how to import a module of this name, or None if ``impl`` has none."""
        of_impl = _of_impl(fullname) if fullname.startswith(f"{__name__}.") else None
        if of_impl is None:
            return None
        package = of_impl.submodule_search_locations is not None
        return ModuleSpec(fullname, self, origin=of_impl.origin, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the empty module that Python has made for the name."""
        sys.modules[module.__name__] = importlib.import_module(_name_in_impl(module.__name__))

    def get_code(self, fullname: str) -> CodeType | None:
        """Returns the code of a module, for ``python -m``."""
        of_impl = _of_impl(fullname)
        if of_impl is None or not isinstance(of_impl.loader, InspectLoader):
            return None
        return of_impl.loader.get_code(_name_in_impl(fullname))


def _name_in_impl(name: str) -> str:
    return f"{impl.__name__}.{name.partition('.')[2]}"


def _of_impl(name: str) -> ModuleSpec | None:
    return util.find_spec(_name_in_impl(name))


sys.meta_path.insert(0, _Modules())
# Python's import reads the module from here when this file has run.
sys.modules[__name__] = impl
