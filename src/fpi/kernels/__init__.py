"""The compiled heart: how data are kept, asked, and decided by.

`numerics` sums and hashes in a fixed order; `tiles` goes from observations to active features; `ridge` keeps the data
of all regressions (`columns` those of sparse features), `append` adds to them, `query` asks for widths and estimates at
a prefix, `cover` finds the first prefix that covers; `choose` has exploring rules and elimination; `states` remembers
visited states; `actor` decides by Algorithm 1 and `levels` by Algorithm 2; `suffixes` notes how episodes went on.

Arguments that mean the same in all of these; what is special to a function is said there.

    store               a `RidgeStore`, the data of all regressions
    regression          the number of a regression: (level - 1) * stages + stage
    block               the action if every action has features of its own, else 0
    cell                the number of a regression and block: that of the regression times blocks, plus the block
    number              the number of a datum, in order of arrival
    position            a prefix of a cell: how many of its data
    k, prefix           a joint prefix: how many data of a regression, in all its blocks
    indices, values     features: the active columns (none if features are dense) and their values; in rows, one for
                        all actions or one for each
    where               local columns of the active ones in a cell, see `columns.locate`; none if features are dense
    threshold           a width up to this is covered
    width2, value       squared width and estimate of a query
    base                the squared width at the anchor below: rounding errors are in proportion
    actor, cache        an `Actor`, and its `StateCache`
    state               the number of a visited state
    name                by which it is recognised: a row of whole numbers
    named, remember     whether a state has a name, and whether it is kept if it is new
    allowed, uncovered  flags, one for each action: asked about; not covered
    progress, mine      how far the search for the first cover came: of each action, of one
    source              where features come from: GIVEN, ..., see `actor`
    stage, level        as in the paper, but that stages begin at 0
    window              how many of the newest prefixes freezing may use
    rule, seed, episode  exploring: one of `choose.EXPLORING`, and what it draws by
    action, target      of a datum: what was done, and the return from there on, in spans of rewards
    constants           a `LevelConstants`: those of Algorithm 2
    suffixes            a `Suffixes`
"""
