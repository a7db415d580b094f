"""Ways to break any agent on purpose, to be mixed in before its class."""


class StoresTooMuch:
    """Stores data from before the last uncovered step, whose returns depend on exploring actions."""

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)
        self.uncovered = []

        def marking(observation, stage):
            code = decide(observation, stage)
            if code & 1:
                self.uncovered.append((self.datasets.kept, stage, code >> 1))
            return code

        return marking

    def learn(self, env, episodes, seed, callback):
        def store(episode):
            for kept, stage, action in self.uncovered[:-1]:
                self.datasets.append(kept, stage, action, episode.rewards[stage:].sum(), episode.number)
            callback(episode)

        return super().learn(env, episodes, seed, callback=store)
