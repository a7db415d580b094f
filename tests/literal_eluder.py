"""FPI for a finite class of functions, as the paper's last appendix has it, line by line and slow.

`fpi.Eluder` is compared with it. It imports nothing from fpi. The procedure is that of the literal Algorithm 2; new is
what covers, estimates and bounds. Whatever is asked of a prefix is answered by a search over all functions, or over all
pairs of them, on the data of that prefix.

What is read into the appendix, beside what is read into Algorithm 2:
- k^(l)(s) is the first prefix at which all of A^(l)(s) is in Cover. k = 0 is one, with F_0 = F.
- The action explored is outside Cover on all data.
- T is known: L-bar = floor(log2 T) + 1, and beta has a covering radius of 1/T^2. A finite class covers itself.
- Of several least-squares functions the first is taken.

Values come from tables, so two programs differ only in how they round sums of squares. A comparison is refused within
ten times 4 u n times the largest term, u the unit of float64 and n the number of data.
"""

import math

import numpy as np
from literal import TIE, UNIT, IllPosed
from literal_regret import LiteralRegret


class Functions:
    """Data of one stage and level in order, and the class F at each of their prefixes."""

    def __init__(self, guard, beta, size, top):
        self.above, self.beta, self.top = guard, beta, top
        self.features, self.actions, self.targets, self.episodes = [], [], [], []
        self.losses = [np.zeros(size)]  # of every function, after each datum
        self.apart = [np.zeros((size, size))]  # sum of (f - g)^2, for every pair

    def __len__(self):
        return len(self.targets)

    def append(self, values, action, target, episode):
        self.features.append(values)
        self.actions.append(action)
        self.targets.append(target)
        self.episodes.append(episode)
        self.losses.append(sum((f - q) ** 2 for f, q in zip(self.features, self.targets, strict=True)))
        self.apart.append(sum((f[:, None] - f[None, :]) ** 2 for f in self.features))

    def error(self, k):
        """How wrong a sum of k squares may be computed."""
        return 4 * UNIT * k * self.top**2

    def best(self, k):
        """The number of f-hat_k."""
        losses = self.losses[k]
        first = int(losses.argmin())
        rivals = [g for g in range(len(losses)) if losses[g] <= losses[first] + 10 * self.error(k)]
        if k and any(self.apart[k][first, g] > 0 for g in rivals):  # else they are the same to every datum
            raise IllPosed(f"functions {rivals} fit the first {k} data about equally well")
        return min(rivals)

    def members(self, k):
        """F_k."""
        if k == 0:
            return np.ones(len(self.losses[0]), bool)
        return ~self.above(self.apart[k][self.best(k)], self.beta(k), self.error(k))

    def widths(self, rows, k):
        inside = rows[:, self.members(k)]
        return inside.max(axis=1) - inside.min(axis=1), np.full(len(rows), 2 * UNIT * self.top)

    def values(self, rows, k):
        return rows[:, self.best(k)], np.full(len(rows), 2 * UNIT * self.top)

    def independent(self, row, k, epsilon):
        """Is there a pair that the first k data hardly tell apart, and this point does?"""
        alike = ~self.above(self.apart[k], epsilon**2, self.error(k))
        differ = self.above(abs(row[:, None] - row[None, :]), epsilon * (1 + TIE), 2 * UNIT * self.top)
        return bool(np.any(alike & differ))


class LiteralEluder(LiteralRegret):
    """`functions(observation, stage)` gives the values of all functions, one row per action."""

    def __init__(self, functions, *, episodes, top=None, **settings):
        super().__init__(functions, **settings, dtype=np.float64)
        self.known_episodes, self.top = episodes, top or self.horizon
        self.levels = max(1, math.floor(math.log2(episodes)))
        self.gaps = {level: [0.5**level] * self.horizon for level in range(1, self.levels + 1)}
        for stage in range(self.horizon):
            for level in range(1, self.levels + 1):
                self.datasets[stage, level] = None  # the first rows show how many functions there are

    def rows(self, observation, stage):
        rows = np.array(self.features(observation, stage), np.float64)
        if self.problem is None:
            self.problem = "known"
            for stage, level in self.datasets:
                beta = lambda k, at=(stage, level), size=rows.shape[1]: self.beta(*at, k, size)  # noqa: E731
                self.datasets[stage, level] = Functions(self.above, beta, rows.shape[1], self.top)
        return rows

    def beta(self, stage, level, k, size):
        """beta*_k(F, delta / 4Hl^2, 1 / T^2), scaled."""
        share, alpha = self.delta / (4 * self.horizon * level**2), 1 / self.known_episodes**2
        variance = self.horizon if self.constants == "paper" else (self.horizon - stage) * self.deviation**2
        second = 8 * max(self.horizon, self.top) + math.sqrt(8 * variance * math.log(4 * k**2 / share))
        return self.scale * (8 * variance * math.log(size / share) + 2 * alpha * k * second)

    def uncovered(self, rows, data, k, level, allowed):
        """The actions of A^(l)(s) outside Cover at prefix k: wider than 2^-l, or 2^-l-independent."""
        widths, errors = data.widths(rows[allowed], k)
        wide = self.above(widths, 0.5**level * (1 + TIE), errors)
        outside = [w or data.independent(rows[a], k, 0.5**level) for w, a in zip(wide, allowed, strict=True)]
        return allowed[np.array(outside)]

    def optimism(self, rung, stage):
        """What may be true is within a width."""
        return 1.0

    def half_widths(self, rows, data, stage, rung):
        """The true function is in F_k, and so is f-hat_k."""
        return data.widths(rows, rung.k)
