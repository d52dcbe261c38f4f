"""Sphinx: Markdown pages and the API from the docstrings."""

project = "tensor-rpca"
author = "the tensor-rpca maintainers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "description": "low rank plus outliers"}
numpydoc_show_class_members = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
