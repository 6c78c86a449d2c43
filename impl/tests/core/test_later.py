"""Names of a package whose modules are imported when a name is first used."""

import sys
import types

import pytest

from impl._core import modules


def test_a_module_is_imported_at_the_first_use_of_its_name(monkeypatch):
    package = types.ModuleType("package_of_later")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    get = modules.names(package.__name__, {"rgb_to_hls": "colorsys"})
    assert "colorsys" not in sys.modules
    value = get("rgb_to_hls")
    assert value is sys.modules["colorsys"].rgb_to_hls
    assert package.rgb_to_hls is value  # The next use does not call `get`.
    with pytest.raises(AttributeError, match="module 'package_of_later' has no attribute 'hls'"):
        get("hls")
