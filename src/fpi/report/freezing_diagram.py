"""What freezing is: a sentence, and an episode drawn as a row of steps."""

from __future__ import annotations

TEXT = (
    "Where its data cover a state, the policy is frozen for good: an episode stores its last uncovered step with the "
    "return from there on, and since every later step was frozen, this return never goes stale."
)
COVERED = (False, False, True, False, False, True, True, True, True)
"""Of the steps that are drawn."""
STORED = max(step for step, covered in enumerate(COVERED) if not covered)

BOX, APART, TOP = 30, 38, 42  # the size of a step, from one to the next, and its upper edge
MARGIN, WIDTH, HEIGHT = 9, 352, 112


def picture() -> str:
    """Drawn in the colours of the page, light or dark, and large enough to be read on a phone."""
    left = [MARGIN + APART * step for step in range(len(COVERED))]
    middle, end = left[STORED] + BOX / 2, left[-1] + BOX
    tail, bottom = left[STORED + 1], TOP + BOX
    steps = "".join(
        f'<rect class="{_look(step)}" x="{x}" y="{TOP}" width="{BOX}" height="{BOX}" rx="5"/>'
        f'<text x="{x + BOX / 2}" y="{TOP + 20}">{step + 1}</text>\n'
        for step, x in enumerate(left)
    )
    return f"""<figure class="card freezing">
<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}">
<title>An episode of {len(COVERED)} steps: step {STORED + 1}, the last uncovered one, is stored; all later ones are
covered and frozen.</title>
{steps}<text x="{middle}" y="20">stored</text>
<path d="M{middle} 26v11m-4 -5l4 5l4 -5"/>
<text x="{(tail + end) / 2}" y="20">covered: frozen</text>
<path d="M{tail} 36v-8H{end}v8"/>
<text class="start" x="{MARGIN}" y="{bottom + 30}">one episode</text>
<path d="M{left[STORED]} {bottom + 6}v6H{end}m-5 -4l5 4l-5 4"/>
<text x="{(left[STORED] + end) / 2}" y="{bottom + 30}">the return that is stored</text>
</svg>
<figcaption>Dashed: uncovered, the policy still explores here. Filled: covered, it always acts the same.</figcaption>
</figure>"""


def _look(step: int) -> str:
    if step == STORED:
        return "stored"
    return "covered" if COVERED[step] else "uncovered"
