"""The texts of lowered programs, and the scatters in them that race on a GPU."""

import re

import impl

#: Options of compilation, with which large programs compile in half of the time.
OPTIONS = {"xla_backend_optimization_level": 0}


def text(function, *args, platform="cpu", debug=False):
    """Returns the StableHLO of a function for a platform."""
    return impl.testing.lower(function, *args, platform=platform).as_text(debug_info=debug)


def races(text):
    """Returns the scatters of a text whose result can depend on the order of their updates.

    Minima and maxima are the same in every order, and so are sums and products of integers.
    Windows of one element do not meet.
    """
    found = re.findall(
        r'"stablehlo\.(?:select_and_)?scatter".*?\}\) (?:\{[^\n]*\} )?:', text, re.DOTALL
    )
    return [
        scatter
        for scatter in found
        if "unique_indices = true" not in scatter
        and not re.search(r"stablehlo\.(add|multiply) .*tensor<u?i\d+>", scatter)
        and not re.search(r"stablehlo\.(maximum|minimum) ", scatter)
        and not re.search(r"window_dimensions = array<i64: 1(, 1)*>", scatter)
    ]
