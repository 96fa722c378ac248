"""Chains of events against plain lists: pushed to, searched, cut and linked anew."""

from __future__ import annotations

from random import Random

import numpy as np

from eddyline.kernels.patterns.automaton_arrays import COUNTS, FREE_LINK, PROBES, Events, Links, PatternRuns
from eddyline.kernels.patterns.automaton_chains import newest_below, push, release_link, set_jumps
from tests.seeds import first_seed

SIZE = 5_000


def arrays() -> tuple[PatternRuns, Links, Events, np.ndarray]:
    runs = PatternRuns(*(np.full(2, -1, np.int64) for _ in PatternRuns._fields))
    links = Links(*(np.full(SIZE, -1, np.int64) for _ in Links._fields))
    keys, nulls = np.zeros((SIZE, 0), np.int64), np.zeros((SIZE, 0), np.bool_)
    events = Events(np.zeros(SIZE, np.int32), np.arange(SIZE), np.zeros(SIZE, np.int64), keys, nulls)
    count = np.zeros(COUNTS, np.int64)
    count[FREE_LINK] = -1
    return runs, links, events, count


def test_a_search_finds_what_a_list_does_also_after_links_have_gone() -> None:
    rng = Random(first_seed(61_000))
    runs, links, events, count = arrays()
    chain: list[int] = []
    event, rank = 0, 0
    for _ in range(400):
        if rng.random() < 0.8 or not chain:
            for _ in range(rng.choice((1, 1, 9))):
                rank += rng.choice((1, 1, 5))
                events.rank[event] = rank
                push(0, event, rank, runs, links, events, count)
                chain.append(event)
                event += 1
        else:
            # Some of the links go, anywhere in the chain.
            gone = set(rng.sample(chain, rng.randrange(len(chain) // 2 + 1)))
            newer, link = -1, int(runs.heads[0])
            while link >= 0:
                older = int(links.next[link])
                if int(links.event[link]) in gone:
                    if newer < 0:
                        runs.heads[0] = older
                    else:
                        links.next[newer] = older
                    release_link(link, links, events, count)
                else:
                    newer = link
                link = older
            set_jumps(runs.heads[0], links)
            chain = [one for one in chain if one not in gone]
        for below in (0, rng.randrange(rank + 2), rank, rank + 1):
            found = int(newest_below(runs.heads[0], below, links, events, count))
            wanted = [one for one in chain if events.rank[one] < below][-1:]
            assert ([int(links.event[found])] if found >= 0 else []) == wanted


def test_a_search_takes_logarithmic_time() -> None:
    runs, links, events, count = arrays()
    events.rank[:] = np.arange(SIZE)
    for event in range(SIZE):
        push(0, event, event, runs, links, events, count)
    for below in range(0, SIZE, 7):
        before = int(count[PROBES])
        assert int(links.event[newest_below(runs.heads[0], below, links, events, count)]) == below - 1 or not below
        assert count[PROBES] - before <= 40
