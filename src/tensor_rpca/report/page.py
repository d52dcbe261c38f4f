"""One self-contained HTML page: no other file, no request, nothing that outlives it."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from tensor_rpca.files import written_whole

# Browsers are told to load nothing from anywhere; pictures and films come as data: URLs.
_POLICY = (
    "default-src 'none'; img-src data:; media-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #66707a; --line: #d9dde2;
        --paper: #ffffff; --panel: #f5f6f8; --accent: #2563a8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --soft: #98a1ab; --line: #353b42; --paper: #16191d;
          --panel: #1f2328; --accent: #7db3ee; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; color: var(--ink);
       background: var(--paper); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { max-width: 60rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: left;
        border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
img, canvas, svg, video { max-width: 100%; }
"""


def write_page(
    path: Path, title: str, body: str, *, data: Any = None, style: str = "", script: str = ""
) -> None:
    """Write a page, whole or not at all.

    Parameters
    ----------
    path : Path
    title : str
        Plain text.
    body : str
        HTML; whatever came from users in it must have gone through ``html.escape``.
    data : anything that JSON can hold
        The script finds it as the constant ``DATA``.
    style, script : str
        Added to the page's own.
    """
    # Within a script element only "</" could end it before its time.
    payload = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{_STYLE}{style}</style>
</head>
<body>
{body}
<script>
"use strict";
const DATA = {payload};
{script}
</script>
</body>
</html>
"""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
