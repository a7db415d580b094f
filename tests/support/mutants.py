"""Ways to break any agent on purpose, to be mixed in before its class."""

import numpy as np


def about_values(claims):
    """Without the rows that compare with definitions: they see most mutants too, see test_verify_mutants.py."""
    return {claim for claim in claims if claim.split()[0] in ("Lemma", "Theorem")}


class StoresTooMuch:
    """Stores data from before the last uncovered step, whose returns depend on exploring actions."""

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)
        self.uncovered = []

        def marking(observation, stage):
            action, explores = decide(observation, stage)
            if explores:
                self.uncovered.append((self.datasets.kept, stage, action))
            return action, explores

        return marking

    def learn(self, env, episodes, seed, callback):
        def store(episode):
            for kept, stage, action in self.uncovered[:-1]:
                self.datasets.append(kept, stage, action, episode.rewards[stage:].sum(), episode.number)
            return callback(episode)

        return super().learn(env, episodes, seed, callback=store)


class ShiftsTargets:
    """Stores returns that are too high."""

    by: float

    def end_episode(self, training_state, explored):
        super().end_episode(training_state, explored and (*explored[:2], explored[2] + self.by))


class ForgetsToStore:
    """Stores the datum of one in fifty episodes."""

    def end_episode(self, training_state, explored):
        super().end_episode(training_state, None if training_state.episodes % 50 else explored)


# --- agents with levels ------------------------------------------------------------------------------------


class ChangesLooks:
    """Sees something else in the data than what they say: `changed` of what was found."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        look = self.datasets.look

        def look_and_change(rows, stage, level, allowed, key=None):
            return self.changed(look(rows, stage, level, allowed, key), rows, stage, level, allowed)

        self.datasets.look = look_and_change


class DoesNotFreeze(ChangesLooks):
    """Uses all data of a level, also at covered states."""

    def changed(self, found, rows, stage, level, allowed):
        if found.covered_at is None:
            return found
        return found._replace(values=np.where(allowed, self.estimates_on_all_data(rows, stage, level), np.nan))


class NeverCovers(ChangesLooks):
    """Never has enough of a level."""

    def changed(self, found, rows, stage, level, allowed):
        return found._replace(covered_at=None, uncovered=allowed.copy())


class FollowsTheData:
    """Its Delta shrinks with the data of a level, also after a state is frozen."""

    shrinks_from: float

    def margins(self, stage, level, prefix):
        return 0.0, 0.0, self.shrinks_from / self.datasets.size(stage, level)


class PlaysTheWorstOfTheAllowed:
    """The policy of every level takes the worst action that the level allows."""

    def _next_level(self, *args):
        level_state = super()._next_level(*args)
        if level_state.covered is None:
            return level_state
        return level_state._replace(action=int(np.nanargmin(level_state.values)))


class PlaysTheWorst:
    """Takes the worst action but in one of `every` episodes, and says that it played at the level it would have."""

    every: int

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def worst(observation, stage):
            answer = decide(observation, stage)
            if training_state.episodes % self.every == 0:
                return answer
            return int(self.level_states(observation, stage)[0].values.argmin()), False

        return worst
