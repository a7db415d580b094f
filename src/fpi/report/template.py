"""The frame of the page, its style and its script."""

from string import Template

# The policy lets the page fetch nothing at all, whatever it contains.
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head>
<body>
<main>
<header>
<h1>$title</h1>
$about
<p class="lead">$lead</p>
</header>
<noscript><p class="note">The charts need JavaScript. The learning curves are also in figure.png.</p></noscript>
$sections
</main>
<script type="application/json" id="charts">$charts</script>
<script>$plotly</script>
<script>$script</script>
</body>
</html>
""")

SECTION = Template("""<section id="$name">
<h2>$title</h2>
$text
$content
</section>
""")

STYLE = """
:root {
  --ink: #1d2329; --soft: #5b6670; --back: #ffffff; --panel: #f5f7f9; --line: #dde2e7;
  --good: #1a7f4b; --bad: #c0392b; --open: #8a6100; --ice: #cfe4f6; --ice-line: #1f6fb4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ec; --soft: #9aa5b0; --back: #14171b; --panel: #1c2127; --line: #323a43;
    --good: #5cc98d; --bad: #f08072; --open: #e0b04a; --ice: #1f4668; --ice-line: #6fb3ec;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { max-width: 75ch; margin: .4rem 0 .8rem; }
.lead, figcaption, dt { color: var(--soft); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .5rem; margin: 0;
  min-width: 0; }
.card.film { padding: .75rem; }
.card img { display: block; max-width: 100%; margin: 0 auto .5rem; border-radius: 4px; }
.card select { margin: .25rem .5rem; font: inherit; color: var(--ink); background: var(--back);
  border: 1px solid var(--line); border-radius: 4px; }
.chart { height: 380px; }
.freezing { max-width: 600px; padding: .75rem; }
.freezing svg { display: block; width: 100%; margin-bottom: .5rem; }
.freezing text { fill: var(--ink); font-size: 13px; text-anchor: middle; }
.freezing .start { text-anchor: start; fill: var(--soft); }
.freezing path { fill: none; stroke: var(--soft); stroke-width: 1.5; }
.freezing rect { fill: none; stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 4 3; }
.freezing .covered { fill: var(--ice); stroke: var(--ice-line); stroke-dasharray: none; }
.freezing .stored { stroke: var(--open); stroke-width: 3; }
.wide { overflow-x: auto; }
.wide + p { margin-top: .8rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .875rem; }
.verdict { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.open { color: var(--open); }
dl { display: grid; gap: .25rem 2rem; margin: 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); }
dl div { display: flex; gap: .6rem; min-width: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
dt { flex: none; }
td code { white-space: nowrap; }
p code { display: inline-block; }  /* a command stands on one line where it can */
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .75rem; overflow-x: auto; }
.note { color: var(--open); }
#numbers td { white-space: nowrap; }
#settings td { min-width: 6rem; max-width: 24rem; }
@media (max-width: 640px) {  /* more than two columns are too many: one below the other, each with its head */
  :is(#claims, #numbers, #settings) thead, td:empty { display: none; }
  :is(#claims, #numbers, #settings) td { display: block; border: 0; padding: 0; max-width: none; }
  :is(#claims, #numbers, #settings) tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  :is(#numbers, #settings) td + td::before { content: attr(data-head) " "; color: var(--soft); }
}
"""

SCRIPT = """
const charts = JSON.parse(document.getElementById("charts").textContent);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themed(layout) {
  const [ink, line, panel] = ["--ink", "--line", "--panel"].map(colour);
  const axis = {gridcolor: line, zerolinecolor: line, linecolor: line};
  return {
    ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: ink, family: "system-ui, sans-serif"}, hoverlabel: {bgcolor: panel, font: {color: ink}},
    xaxis: {...layout.xaxis, ...axis}, yaxis: {...layout.yaxis, ...axis},
  };
}

function draw(place) {
  const {data, layout} = charts[place.dataset.chart];
  return Plotly.react(place, data, themed(layout), {responsive: true, displaylogo: false});
}

const places = [...document.querySelectorAll(".chart")];
for (const select of document.querySelectorAll("select")) {
  const place = select.parentElement.querySelector(".chart");
  select.addEventListener("change", () => {
    charts[place.dataset.chart].data.forEach((trace, i) => { trace.visible = i === select.selectedIndex; });
    draw(place);
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach(draw));
Promise.all(places.map(draw)).then(() => { document.body.dataset.drawn = places.length; });
"""
