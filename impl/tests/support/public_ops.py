"""The public ops of ``impl``, found by introspection."""

import inspect

import impl

#: The namespaces of ops, by the prefix of their ops' names.
_NAMESPACES = {
    "": impl,
    "nn.": impl.nn,
    "nn.functional.": impl.nn.functional,
    "sparse.": impl.sparse,
}
#: The packages that define ops. Other functions of the namespaces are not ops.
_PACKAGES = ("impl.ops.", "impl.nn.", "impl.sparse.")


def public_ops():
    """Returns the public ops by dotted name."""
    return {
        prefix + name: function
        for prefix, namespace in _NAMESPACES.items()
        for name, function in inspect.getmembers(namespace, inspect.isfunction)
        if function.__module__.startswith(_PACKAGES)
    }
