"""The compiled heart: how data are kept, asked, and decided by.

`numerics` sums and hashes in a fixed order; `tiles` goes from observations to active features; `ridge` keeps the data
of all regressions (`columns` those of sparse features), `append` adds to them, `query` asks for widths and estimates at
a prefix, `cover` finds the first prefix that covers; `choose` has exploring rules and elimination; `states` remembers
visited states; `actor` decides by Algorithm 1 and `levels` by Algorithm 2; `suffixes` notes how episodes went on.
"""
