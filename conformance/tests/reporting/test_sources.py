"""The modules of ops, and the files of rows."""

import functools
import types

import impl
import spec
from conformance.reporting import sources


def test_a_wrapped_function_has_its_module_and_a_row_its_file():
    @functools.wraps(impl.index_add)
    def wrapped(*args, **options):
        return impl.index_add(*args, **options)

    namespace = types.SimpleNamespace(index_add=wrapped)
    assert list(sources.to_edit(spec.load().row("R0001"), "index_add", namespace)) == [
        "edit:  index_add in impl.ops._scatters, if the implementation is wrong",
        "       spec/rows/index_add.toml, if a row is wrong",
    ]


def test_an_op_that_is_absent_and_a_row_that_is_missing_are_named():
    assert list(sources.to_edit(None, "index_add", types.SimpleNamespace())) == [
        "edit:  index_add in the namespace, if the implementation is wrong",
        "       spec/rows/index_add.toml, if a row is missing",
    ]
