"""Algorithm 1 (FPI-PAC) of the paper, line by line and slow: the reference `fpi.PAC` is compared with.

It imports nothing from fpi. For every stage it keeps the inverses of all covariances
Sigma_0, Sigma_1, ..., Sigma_n, each computed explicitly, and looks for the freezing index by trying
k = 0, 1, 2, ... in turn.

Two programs that round differently can only be asked to agree on decisions that rounding cannot turn.
So every comparison with a tolerance edge also looks how near it came, and raises `IllPosed` within ten
times the numerical error: such an instance proves nothing and must not pass by luck. With X = Sigma_k^-1,
b = sum_{i<=k} phi_i q_i, theta = X b and u the unit of float64, in which fpi computes, the error of

    a width w = sqrt(phi' X phi)  is taken as  4 u w |Sigma| / ridge   (widths start from |phi|^2 / ridge)
    an estimate phi' theta        is taken as  8 u |Sigma| |X phi| |theta|   (Sigma is rounded by u |Sigma|)

To both is added what the explicit inverse costs here: it is wrong by X E with |E| about v cond(Sigma), v
the unit of its own precision, which moves phi' X phi by |X phi| |E| |phi| and phi' X b by |X phi| |E| |b|.
That is why long double is the default.
"""

import numpy as np

TIE = 1e-9
FAR_ENOUGH = 10.0
WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
UNIT, TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny


class IllPosed(AssertionError):
    """A comparison came so near to its tolerance edge that rounding could decide it."""


def inverse(matrix):
    """The inverse, in the precision of the matrix: float64, or refined from there by Newton's method."""
    result = np.linalg.inv(matrix.astype(np.float64)).astype(matrix.dtype)
    if matrix.dtype != np.float64:
        for _ in range(2):
            result = result @ (2 * np.eye(len(matrix), dtype=matrix.dtype) - matrix @ result)
    return result


def norms(rows):
    return np.sqrt(np.square(rows).sum(axis=-1))


def mix(z):
    """The finaliser of splitmix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def pick(seed, episode, stage, count):
    """The index in range(count) that the exploring rule "random" takes."""
    z = mix((seed + GOLDEN * (episode + 1)) & WORD)
    return mix((z + GOLDEN * (stage + 1)) & WORD) % count


class Dataset:
    """D_h with X_k = Sigma_k^-1 and b_k = sum_{i<=k} phi_i q_i for every prefix k = 0..n."""

    def __init__(self, dim, ridge, dtype):
        self.features, self.actions, self.targets, self.episodes = [], [], [], []
        self.ridge, self.sigma = ridge, dtype(ridge) * np.eye(dim, dtype=dtype)
        self.moments = [np.zeros(dim, dtype)]
        self.inverses, self.sizes, self.losses = [], [], []  # X_k, |Sigma_k|, and what inverting it cost
        self._keep_inverse()

    def __len__(self):
        return len(self.targets)

    def append(self, phi, action, target, episode):
        self.features.append(phi)
        self.actions.append(action)
        self.targets.append(target)
        self.episodes.append(episode)
        self.sigma = self.sigma + np.outer(phi, phi)
        self.moments.append(self.moments[-1] + phi * target)
        self._keep_inverse()

    def _keep_inverse(self):
        eigenvalues = np.linalg.eigvalsh(self.sigma.astype(np.float64))
        self.inverses.append(inverse(self.sigma))
        self.sizes.append(eigenvalues[-1])
        self.losses.append(np.finfo(self.sigma.dtype).eps * eigenvalues[-1] / eigenvalues[0])

    def widths(self, rows, k):
        """sqrt(phi' X_k phi) of every row phi, and how wrong it may be computed."""
        widths, errors = self.widths_at(rows, slice(k, k + 1))
        return widths[0], errors[0]

    def widths_at(self, rows, prefixes):
        """The same at several prefixes, one after the other."""
        solved = rows @ np.array(self.inverses[prefixes])
        widths = np.sqrt((rows * solved).sum(axis=2))
        losses, sizes = (np.array(each[prefixes])[:, None] for each in (self.losses, self.sizes))
        own = norms(solved) * losses * norms(rows) / np.maximum(widths, TINY)
        return widths, 4 * UNIT * widths * sizes / self.ridge + own

    def values(self, rows, k):
        """phi' X_k b_k of every row, the estimate on the first k data, and how wrong it may be computed."""
        solved, moment = rows @ self.inverses[k], self.moments[k]
        (theta,), (size,) = norms([self.inverses[k] @ moment]), norms([moment])
        own = norms(solved) * self.losses[k] * size
        return solved @ moment, 8 * UNIT * self.sizes[k] * norms(solved) * theta + own


class Guarded:
    """Comparisons that refuse to be decided by rounding."""

    closest = np.inf  # the nearest comparison so far: its distance to the edge, in numerical errors

    def above(self, scores, edge, errors):
        """scores > edge, refused where rounding could decide."""
        distances = abs(scores - edge) / np.maximum(errors, TINY)
        if distances.min() <= FAR_ENOUGH:
            raise IllPosed(f"{scores} come within {distances.min():.1f} numerical errors of the edge {edge}")
        self.closest = min(self.closest, distances.min())
        return scores > edge

    def best(self, scores, errors, among):
        """The lowest action of `among` whose score is the largest, up to the tie tolerance."""
        top = among[scores[among].argmax()]
        others = among[among != top]
        if not len(others):
            return int(top)
        edge = scores[top] - TIE * (1 + abs(scores[top]))
        tied = others[self.above(scores[others], edge, errors[others] + errors[top])]
        return int(min([top, *tied]))


class LiteralPAC(Guarded):
    """Algorithm 1. `features(observation, stage)` gives one row per action; stages count from 0."""

    def __init__(
        self,
        features,
        *,
        actions,
        horizon,
        epsilon,
        ridge,
        explore="random",
        freeze="exact",
        reward_range=(0.0, 1.0),
        seed=0,
        dtype=np.longdouble,
    ):
        self.features, self.actions, self.horizon, self.dtype = features, actions, horizon, dtype
        self.epsilon, self.ridge, self.explore, self.freeze = epsilon, ridge, explore, freeze
        self.unit = max(reward_range[1], 0.0) - min(reward_range[0], 0.0)  # of rewards, so that |Q| <= H
        self.seed, self.episode = seed, 0
        self.datasets = None  # made when the first features show their dimension

    # --- the policy ------------------------------------------------------------------------------------
    def uncovered(self, rows, data, k):
        """The actions outside Cover on the first k data, in increasing order."""
        widths, errors = data.widths(rows, k)
        return np.flatnonzero(self.above(widths, self.epsilon * (1 + TIE), errors))

    def rows(self, observation, stage):
        rows = np.asarray(self.features(observation, stage), dtype=self.dtype)
        if self.datasets is None:
            dim = rows.shape[1]
            self.datasets = [Dataset(dim, self.ridge, self.dtype) for _ in range(self.horizon)]
        return rows

    def first_cover(self, rows, data):
        """eq. (2): the first prefix that covers all actions, or None."""
        widths, errors = data.widths_at(rows, slice(None))
        edge = self.epsilon * (1 + TIE)
        covers = [*np.flatnonzero((widths <= edge).all(axis=1)), None]
        until = len(widths) if covers[0] is None else covers[0] + 1
        self.above(widths[:until], edge, errors[:until])  # refused where rounding could decide
        return covers[0]

    def freezing_index(self, rows, data):
        """The prefix whose estimate decides at a covered state; None at an uncovered one."""
        n, first = len(data), self.first_cover(rows, data)
        if first is None or self.freeze == "exact":
            return first
        kept = 1 if self.freeze == "never" else self.freeze  # only the last `kept` prefixes are remembered
        return min(max(first, n - kept + 1), n)

    def act(self, observation, stage):
        """Line 3: pi_t(s), and whether (s, pi_t(s)) is outside Cover."""
        rows, data = self.rows(observation, stage), self.datasets[stage]
        k, n = self.freezing_index(rows, data), len(data)
        if k is not None:
            return self.best(*data.values(rows, k), among=np.arange(self.actions)), False
        candidates = self.uncovered(rows, data, n)
        if self.explore == "first":
            action = candidates[0]
        elif self.explore == "widest":
            action = self.best(*data.widths(rows, n), among=candidates)
        elif self.explore == "greedy":
            action = self.best(*data.values(rows, n), among=candidates)
        else:
            action = candidates[pick(self.seed, self.episode, stage, len(candidates))]
        return int(action), True

    def greedy(self, observation, stage):
        """argmax_a Q_t(s, a), eq. (3), and the prefix it rests on; at an uncovered state all data."""
        rows, data = self.rows(observation, stage), self.datasets[stage]
        k = self.freezing_index(rows, data)
        k = len(data) if k is None else k
        return self.best(*data.values(rows, k), among=np.arange(self.actions)), k

    # --- the loop --------------------------------------------------------------------------------------
    def learn_episode(self, env):
        """Lines 4 to 8. Returns the actions taken and h_t, or -1 if it does not exist."""
        observation, _ = env.reset(seed=self.seed if self.episode == 0 else None)
        path, last_uncovered, ended = [], -1, False
        for stage in range(self.horizon):
            if ended:  # absorbed: reward 0 for the remaining stages, nothing is asked or stored
                path.append((None, None, 0.0))
                continue
            action, is_uncovered = self.act(observation, stage)
            if is_uncovered:
                last_uncovered = stage
            phi = self.rows(observation, stage)[action]
            observation, reward, terminated, truncated, _ = env.step(action)
            path.append((phi, action, reward))
            ended = terminated or truncated
        if last_uncovered >= 0:
            phi, action, _ = path[last_uncovered]
            target = sum(reward / self.unit for _, _, reward in path[last_uncovered:])
            self.datasets[last_uncovered].append(phi, action, target, self.episode)
        self.episode += 1
        return [action for _, action, _ in path if action is not None], last_uncovered
