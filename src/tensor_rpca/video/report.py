"""report.html: a page to look at a separation with, frame by frame."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tensor_rpca.report.page import write_page
from tensor_rpca.video.subtract import Separation

Array = NDArray[Any]

# Pictures of the page: so many frames at most, and so many columns a panel.
MAX_FRAMES = 300
MAX_WIDTH = 320
PANELS = ("original", "background", "foreground", "mask")

_STYLE = """
.panels { display: grid; grid-template-columns: repeat(4, 1fr); gap: .5rem; }
.panels figure { margin: 0; } .panels canvas { width: 100%; background: #000; display: block; }
figcaption { color: var(--soft); font-size: .85rem; }
.controls { display: flex; gap: .8rem; align-items: center; margin: .8rem 0; }
.controls input { flex: 1; } output { min-width: 6rem; font-variant-numeric: tabular-nums; }
.plots { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); }
svg { background: var(--panel); width: 100%; } svg text { fill: var(--soft); font-size: 11px; }
svg .cursor { stroke: var(--ink); stroke-opacity: .5; }
@media (max-width: 50rem) { .panels { grid-template-columns: repeat(2, 1fr); } }
"""

_SCRIPT = """
const $ = id => document.getElementById(id);
const pictures = DATA.pictures.map(text => { const i = new Image(); i.src = text; return i; });
let cursor = null, timer = null;
function show(k) {
  const picture = pictures[k];
  picture.decode().then(() => {
    if (+$("slider").value !== k) return;
    DATA.panels.forEach((name, n) => {
      const canvas = $(name);
      canvas.width = DATA.width; canvas.height = DATA.height;
      canvas.getContext("2d").drawImage(picture, n * DATA.width, 0, DATA.width, DATA.height,
                                        0, 0, DATA.width, DATA.height);
    });
    document.body.dataset.shown = k;
  });
  $("number").value = "frame " + DATA.frames[k];
  if (cursor) { const x = cursor.at(DATA.frames[k]);
                cursor.line.setAttribute("x1", x); cursor.line.setAttribute("x2", x); }
}
function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => { const s = $("slider");
    s.value = (+s.value + 1) % pictures.length; show(+s.value); }, 1000 / DATA.rate) : null;
  $("play").textContent = on ? "pause" : "play";
}
$("slider").addEventListener("input", () => show(+$("slider").value));
$("play").addEventListener("click", () => play(timer === null));

const colours = ["#2563a8", "#d2691e", "#2e8b57", "#8a5cc2", "#c2405c", "#7a7a2a", "#4aa3a3"];
function draw(id, tag, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  $(id).append(e); return e;
}
function plot(id, curves, log, label) {
  const W = 420, H = 190, l = 62, r = 8, t = 10, b = 26;
  $(id).setAttribute("viewBox", `0 0 ${W} ${H}`);
  const f = v => log ? Math.log10(Math.max(v, 1e-300)) : v;
  const all = curves.flat().map(f), n = Math.max(...curves.map(c => c.length));
  let low = Math.min(...all), high = Math.max(...all);
  if (!(high > low)) { low -= 1; high += 1; }
  const x = i => l + (W - l - r) * i / Math.max(1, n - 1);
  const y = v => t + (H - t - b) * (high - f(v)) / (high - low);
  const say = v => (log ? 10 ** v : v).toPrecision(3);
  draw(id, "text", {x: 4, y: t + 8}, say(high)); draw(id, "text", {x: 4, y: H - b}, say(low));
  draw(id, "text", {x: l, y: H - 8}, label);
  draw(id, "text", {x: W - r, y: H - 8, "text-anchor": "end"}, n - 1);
  curves.forEach((c, k) => draw(id, "polyline", {fill: "none", "stroke-width": 1.3,
    "stroke-opacity": k < 3 ? 1 : .25,
    stroke: colours[k % colours.length], points: c.map((v, i) => x(i) + "," + y(v)).join(" ")}));
  return x;
}
function bars(id, values) {
  const W = 420, H = 190; $(id).setAttribute("viewBox", `0 0 ${W} ${H}`);
  const step = (W - 20) / Math.max(1, values.length), top = Math.max(...values, 1e-300);
  values.forEach((v, k) => {
    const h = 140 * Math.max(0, 1 + Math.log10(v / top) / 4);
    draw(id, "rect", {x: 10 + k * step, y: 165 - h, width: step * .7, height: h,
                      fill: colours[k % colours.length]});
    draw(id, "text", {x: 10 + k * step, y: 160 - h}, v.toExponential(values.length > 6 ? 0 : 1));
    draw(id, "text", {x: 10 + k * step, y: 180}, k + 1);
  });
}
const at = plot("temporal", DATA.temporal, false, "frame");
cursor = {at, line: draw("temporal", "line", {class: "cursor", y1: 10, y2: 164, x1: 0, x2: 0})};
if (DATA.objective.length) plot("convergence", [DATA.objective], true, "iteration");
bars("weights", DATA.weights);
show(0);
"""


def write_report(
    path: Path, result: Separation, title: str, rate: float, numbers: dict[str, str]
) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
    result : Separation
    title : str
        Plain text.
    rate : float
        Frames per second.
    numbers : dict
        What the table says, as plain text.
    """
    T, H, W = result.clip.shape[:3]
    every = -(-T // MAX_FRAMES)
    shown = list(range(0, T, every))
    step = -(-W // MAX_WIDTH)
    pictures = [_picture(result, t, step) for t in shown]
    found = result.decomposition
    data = {
        "pictures": pictures,
        "panels": PANELS,
        "width": len(range(0, W, step)),
        "height": len(range(0, H, step)),
        "frames": shown,
        "rate": max(1.0, min(30.0, rate / every)),
        "temporal": _courses(result),
        "objective": [float(v) for v in found.history["objective"]],
        "weights": [float(w) for w in found.low_rank.weights],
    }
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in numbers.items()
    )
    figures = "".join(
        f'<figure><canvas id="{name}"></canvas><figcaption>{name}</figcaption></figure>'
        for name in PANELS
    )
    note = f" Every {every}th frame is shown." if every > 1 else ""
    body = f"""<h1>{html.escape(title)}</h1>
<p class="soft">What is there, and what moves.{note}</p>
<div class="panels">{figures}</div>
<div class="controls"><button id="play">play</button>
<input id="slider" type="range" min="0" max="{len(shown) - 1}" value="0" aria-label="frame">
<output id="number"></output></div>
<div class="plots">
<section><h2>Temporal factors</h2><svg id="temporal"></svg>
<p class="soft">How the background's components vary over time, each in units of its largest
value; the three heaviest stand out.</p></section>
<section><h2>Component weights</h2><svg id="weights"></svg>
<p class="soft">On a logarithmic scale of four decades.</p></section>
<section><h2>Convergence</h2><svg id="convergence"></svg>
<p class="soft">The objective, on a logarithmic scale.</p></section>
<section><h2>Numbers</h2><table>{rows}</table></section>
</div>"""
    write_page(path, title, body, data=data, style=_STYLE, script=_SCRIPT)


def _courses(result: Separation) -> list[list[float]]:
    factors = result.decomposition.low_rank.factors[0]
    return [[round(float(v), 5) for v in a / max(1e-12, np.abs(a).max())] for a in factors.T]


def _picture(result: Separation, t: int, step: int) -> str:
    """The four panels of a frame side by side, as a data: URL."""
    levels = result.model.levels
    parts = (result.clip[t], result.background_frame(t), result.foreground_frame(t))
    strip = [_rgb(np.clip(np.rint(levels.of(p)), 0, 255).astype(np.uint8)) for p in parts]
    strip.append(_rgb(result.mask_frame(t) * np.uint8(255)))
    whole = np.concatenate([s[::step, ::step] for s in strip], axis=1)
    buffer = io.BytesIO()
    Image.fromarray(whole).save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _rgb(frame: Array) -> Array:
    if frame.ndim == 2:
        return np.repeat(frame[:, :, None], 3, axis=2)
    return np.repeat(frame[:, :, :1], 3, axis=2) if frame.shape[2] < 3 else frame[:, :, :3]
