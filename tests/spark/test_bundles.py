"""Blocks in few objects: found again byte for byte, removed when dead, written again when mostly dead."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from eddyline.runtime.sharded.ingest.packet import from_blob
from eddyline.runtime.sharded.storage.bundles import BUNDLE_BYTES, Block, Bundles


def block(number: int, rows: int = 100) -> Block:
    return lambda: pa.table({"n": pa.array([number] * rows, pa.int64())})


def found(bundles: Bundles, values: dict[str, bytes], name: str) -> pa.Table:
    bundle, offset, size = bundles.places[name]
    return from_blob(memoryview(values[bundle])[offset : offset + size])


def test_an_epoch_is_one_value() -> None:
    bundles, contents = Bundles().after({f"b{n}": block(n) for n in range(20)}, "t1")
    assert len(contents) == 1
    for number in range(20):
        assert found(bundles, contents, f"b{number}").column("n")[0].as_py() == number


def test_large_epochs_are_several_values() -> None:
    rows = BUNDLE_BYTES // 8 // 3
    bundles, contents = Bundles().after(
        {f"b{n}": block(n, rows) for n in range(7)} | {"huge": block(9, 4 * rows)}, "t1"
    )
    assert len(contents) == 5
    assert max(map(len, contents.values())) == len(contents[bundles.places["huge"].bundle])
    assert sorted(len(c) <= BUNDLE_BYTES for c in contents.values()) == [False, True, True, True, True]


def test_nothing_new_writes_nothing() -> None:
    live = {"a": block(1), "b": block(2)}
    first, _ = Bundles().after(live, "t1")
    second, contents = first.after(live, "t2")
    assert (second, contents) == (first, {})


def test_a_bundle_that_is_mostly_dead_is_left() -> None:
    first, _ = Bundles().after({f"b{n}": block(n) for n in range(5)}, "t1")
    second, contents = first.after({"b3": block(3), "b4": block(4)}, "t2")
    assert set(second.stamps) == set(contents) == {"t2-0"}
    assert found(second, contents, "b4").column("n")[0].as_py() == 4


def test_any_history_keeps_what_is_live_and_at_most_twice_its_size() -> None:
    random = Random(3)
    values: dict[str, bytes] = {}
    bundles, live, made = Bundles(), {}, 0
    for epoch in range(200):
        live = {name: one for name, one in live.items() if random.random() < 0.7}
        for _ in range(random.randrange(4)):
            live[f"b{made}"] = block(made, random.choice((1, 50, 500)))
            made += 1
        after, contents = bundles.after(live, f"t{epoch}")
        values |= contents
        for name in bundles.stamps.keys() - after.stamps.keys():
            del values[name]
        # Through the header, as between two tasks.
        bundles = Bundles.of_header(after.header())
        assert values.keys() == bundles.stamps.keys()
        assert all(found(bundles, values, name).equals(one()) for name, one in live.items())
        used = sum(place.size for place in bundles.places.values())
        assert sum(map(len, values.values())) <= 2 * used + 64 * len(bundles.places)
