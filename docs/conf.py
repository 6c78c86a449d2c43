"""Sphinx reads this."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "samebits"
author = "The samebits authors"
project_copyright = author
release = metadata.version("samebits")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "spec_lists",
    "conformance_tables",
]
nitpicky = True
# The site is built without a network, so it has no links to the pages of Python and JAX.
# A signature names types by the module that defines them. The site documents them under the public
# module that exports them.
nitpick_ignore_regex = [
    ("py:.*", r"(?!impl|spec).*"),
    ("py:.*", r"impl\.(.*\.)?_.*"),
    ("py:.*", r"impl\.(ops|quantized)\..*"),
    ("py:.*", r".*\.[PR]"),
]
autodoc_member_order = "bysource"
smartquotes = False  # What the spec says stands as it is.
exclude_patterns = ["_build", "_ext", "tests"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"samebits {release}"
