"""The configuration of the site, which Sphinx reads."""

import gc
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

# Documents are so many small objects that collections would otherwise take a fifth of a build.
gc.set_threshold(50_000, 20, 20)

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
    "finishing",
    "op_pages",
    "templates",
]
nitpicky = True
# Two kinds of types in signatures have no page on this site. The site is built without a network,
# so it cannot find the pages of Python and JAX. And a signature names a type by the private module
# that defines it, while the site documents the public module that exports it.
nitpick_ignore_regex = [
    ("py:.*", r"(?!impl|spec).*"),
    ("py:.*", r"impl\.(.*\.)?_.*"),
    ("py:.*", r"impl\.(ops|quantized)\..*"),
    ("py:.*", r".*\.[PR]"),
]
autodoc_member_order = "bysource"
smartquotes = False  # The texts of the spec appear unchanged.
exclude_patterns = ["_build", "_data", "_ext", "_static", "_templates", "tests"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
napoleon_numpy_docstring = False

html_theme = "furo"
# The colours of the words of answers: of a warning, of a doubt, of a promise.
LIGHT = {"word-stop": "#a40e26", "word-doubt": "#7a4b00", "word-good": "#0b5394"}
DARK = {"word-stop": "#ff9ba6", "word-doubt": "#f0c075", "word-good": "#8cc8ff"}
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": LIGHT,
    "dark_css_variables": DARK,
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
templates_path = ["_templates"]
html_copy_source = False
html_show_search_summary = False  # finishing writes excerpts that need no server.
html_extra_path = ["_data"]  # op_pages writes it.
html_title = f"samebits {release}"
