"""The page about a corpus's topics: words, sizes, map, best documents, what was set aside."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.report.page import write_page

Array = NDArray[Any]

MAP = 520
SNIPPET = 220

_STYLE = """
.figures { display: flex; flex-wrap: wrap; gap: .6rem 2.2rem; margin: 1rem 0; }
.figures b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.topics { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; }
.topic { background: var(--panel); border-radius: 8px; padding: .7rem .9rem; cursor: pointer;
         border: 2px solid transparent; font: inherit; color: inherit; text-align: left;
         display: block; align-self: start; }
.topic[aria-pressed=true] { border-color: var(--accent); }
.topic h3 { margin: 0 0 .3rem; font-size: 1rem; }
.word { display: grid; grid-template-columns: 8rem 1fr 4rem; gap: .4rem; align-items: center;
        font-size: .88rem; line-height: 1.35; }
.word span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.bar { background: var(--accent); height: .6rem; border-radius: 2px; }
.number { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 2rem; }
circle { fill: var(--accent); fill-opacity: .35; stroke: var(--accent); cursor: pointer; }
circle.chosen { fill-opacity: .85; } svg text { fill: var(--ink); pointer-events: none; }
blockquote { margin: .5rem 0; padding-left: .8rem; border-left: 3px solid var(--line); }
"""

_SCRIPT = """
const cards = [...document.querySelectorAll(".topic")];
const dots = [...document.querySelectorAll("circle")];
const best = document.getElementById("best");
function choose(k) {
  cards.forEach((c, i) => c.setAttribute("aria-pressed", i === k));
  dots.forEach((c, i) => c.classList.toggle("chosen", i === k));
  best.replaceChildren();
  const title = document.createElement("p");
  title.className = "soft";
  title.textContent = `Topic ${k + 1}: ${DATA.words[k].slice(0, 5).join(", ")}`;
  best.append(title);
  for (const d of DATA.best[k]) {
    const quote = document.createElement("blockquote");
    const head = document.createElement("b");
    head.textContent = `${d.name} (${(100 * d.share).toFixed(0)} %)`;
    const text = document.createElement("div");
    text.textContent = d.text;
    quote.append(head, text);
    best.append(quote);
  }
}
cards.forEach((c, i) => c.addEventListener("click", () => choose(i)));
dots.forEach((c, i) => c.addEventListener("click", () => choose(i)));
choose(0);
"""


def write_report(path: Path, summary: dict[str, Any], best: list[list[dict[str, Any]]]) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
    summary : dict
        What topics.json holds.
    best : list of lists of dict
        For each topic, documents with "name", "share" and "text".
    """
    topics = summary["topics"]
    body = [
        f"<h1>Topics of {html.escape(summary['corpus'])}</h1>",
        _figures(summary),
        "<h2>Topics</h2><p class=soft>The likeliest words of each, with their probabilities; "
        "click a topic to see where it lies and which documents are most of it.</p>",
        '<div class="topics">',
        *(_card(k, topic) for k, topic in enumerate(topics)),
        '</div><div class="two"><div><h2>Map</h2><p class=soft>Topics close together share words '
        "(Hellinger distance); areas are sizes.</p>",
        _map(topics, np.asarray(summary["map"])),
        '</div><div><h2>Documents that fit best</h2><div id="best"></div></div></div>',
        _aside(summary),
    ]
    data = {"words": [[w["word"] for w in t["words"]] for t in topics], "best": best}
    write_page(
        path,
        f"Topics of {summary['corpus']}",
        "\n".join(body),
        data=data,
        style=_STYLE,
        script=_SCRIPT,
    )


def _figures(summary: dict[str, Any]) -> str:
    figures = [
        ("documents", f"{summary['documents']:,}"),
        ("words in the vocabulary", f"{summary['vocabulary']:,}"),
        ("topics", str(len(summary["topics"]))),
        ("set aside", f"{len(summary['set_aside']):,}"),
        ("under three words", f"{summary['too_short']:,}"),
    ]
    scores = summary["held_out"]
    if scores["documents"]:
        figures += [
            ("perplexity, held-out halves", f"{scores['completion_perplexity']:,.0f}"),
            ("coherence, held out (NPMI)", f"{scores['coherence']:.3f}"),
        ]
    figures += [("different top words", f"{100 * summary['diversity']:.0f} %")]
    cells = "".join(f"<div><b>{value}</b>{name}</div>" for name, value in figures)
    return f'<div class="figures">{cells}</div>'


def _card(k: int, topic: dict[str, Any]) -> str:
    top = max(topic["words"][0]["probability"], 1e-12)
    rows = "".join(
        f"<div class=word><span>{html.escape(w['word'])}</span>"
        f'<span><span class=bar style="display:block;width:{100 * w["probability"] / top:.1f}%">'
        f"</span></span><span class=number>{100 * w['probability']:.2f} %</span></div>"
        for w in topic["words"]
    )
    coherence = topic.get("coherence")
    said = "" if coherence is None else f" · coherence {coherence:.2f}"
    return (
        f'<button class="topic" type="button" aria-pressed="false"><h3>Topic {k + 1} '
        f"<span class=soft>{100 * topic['size']:.1f} % of the words{said}</span></h3>{rows}"
        "</button>"
    )


def _map(topics: list[dict[str, Any]], points: Array) -> str:
    low, span = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-9)
    places = 50 + (MAP - 100) * (points - low) / span
    parts = []
    for k, ((x, y), topic) in enumerate(zip(places.tolist(), topics, strict=True)):
        radius = 6 + 34 * topic["size"] ** 0.5
        words = html.escape(", ".join(w["word"] for w in topic["words"][:8]))
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{words}</title></circle>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="12">{k + 1}</text>'
        )
    return (
        f'<svg viewBox="0 0 {MAP} {MAP}" width="{MAP}" role="img" '
        f'aria-label="Map of the topics">{"".join(parts)}</svg>'
    )


def _aside(summary: dict[str, Any]) -> str:
    parts = ["<h2>What was set aside</h2>"]
    if summary["set_aside"]:
        parts.append(
            "<p>These documents repeat themselves far more than the others do; no topic follows "
            "them.</p><table><tr><th>document</th><th>words</th><th>most frequent</th></tr>"
        )
        parts += [
            f"<tr><td>{html.escape(d['name'])}</td><td>{d['length']:,}</td>"
            f"<td>{html.escape(', '.join(d['words']))}</td></tr>"
            for d in summary["set_aside"][:50]
        ]
        parts.append("</table>")
        if len(summary["set_aside"]) > 50:
            parts.append(f"<p class=soft>and {len(summary['set_aside']) - 50:,} more</p>")
    else:
        parts.append("<p>No document.</p>")
    parts.append(
        f"<p>{summary['sparse_errors']:,} of the {summary['reduced'] ** 3:,} entries of the "
        "reduced third moment fit no topic and are left to its sparse part. "
        f"{summary['too_short']:,} documents have fewer than three words of the vocabulary.</p>"
    )
    if summary["problems"]:
        listed = "".join(f"<li>{html.escape(p)}</li>" for p in summary["problems"][:50])
        parts.append(
            f"<h2>Not read, or not as meant: {len(summary['problems']):,}</h2><ul>{listed}</ul>"
        )
    return "\n".join(parts)


def map_of_topics(topics: Array) -> Array:
    """Place topics (K, d) in a plane by their Hellinger distances (classical scaling), (K, 2)."""
    root = np.sqrt(topics)
    centred = root - root.mean(axis=0)
    left, values, _ = np.linalg.svd(centred @ centred.T)
    placed = left[:, :2] * np.sqrt(values[:2])
    return np.pad(placed, ((0, 0), (0, 2 - placed.shape[1])))
