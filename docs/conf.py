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
# Python's and JAX's own pages are not part of this site, which is built without a network.
# What impl makes public is documented as impl's, not under the module that defines it.
nitpick_ignore_regex = [
    ("py:.*", r"(?!impl|spec).*"),
    ("py:.*", r"impl\.ops\..*"),
    ("py:.*", r".*\.[PR]"),
    ("py:.*", r"impl\.utils\.data\._.*"),
    ("py:.*", r"impl\.emulation\..*"),
]
autodoc_member_order = "bysource"
smartquotes = False  # What the spec says stands as it is.
exclude_patterns = ["_build", "_ext", "tests"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"samebits {release}"
