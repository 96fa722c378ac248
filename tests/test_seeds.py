"""The share and the seed of random cases."""

from __future__ import annotations

import pytest

from tests.seeds import cases, commit, first_seed, is_whole, repeated_by, seed_of, some


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EDDYLINE_SEED", "EDDYLINE_SOAK", "EDDYLINE_SHARE"):
        monkeypatch.delenv(name, raising=False)


def test_a_quarter_of_the_cases_and_at_least_one() -> None:
    assert [cases(n) for n in (1, 4, 5, 8, 100)] == [1, 1, 2, 2, 25]
    assert cases(8, soak=400) == 2 and not is_whole()


def test_a_soak_has_all_of_them_or_as_many_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDDYLINE_SOAK", "1")
    assert (cases(8), cases(8, soak=400), is_whole()) == (8, 400, True)


def test_some_of_a_list_are_drawn_by_the_seed_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for seed in ("1", "2"):
        monkeypatch.setenv("EDDYLINE_SEED", seed)
        found[seed] = some(range(80))
        assert len(found[seed]) == 20 and found[seed] == sorted({*found[seed]})
    assert found["1"] != found["2"]
    monkeypatch.setenv("EDDYLINE_SOAK", "1")
    assert some("abc") == ["a", "b", "c"]


def test_another_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDDYLINE_SHARE", "1")
    assert (cases(8), cases(8, soak=400), is_whole()) == (8, 8, True)


def test_the_seed_is_that_of_the_commit_or_the_one_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_seed() == seed_of(commit()) and first_seed(7) == first_seed() + 7
    assert seed_of("") == 0 and 0 < seed_of("f" * 40) < 2**31 - 10_000_000
    monkeypatch.setenv("EDDYLINE_SEED", "41")
    assert first_seed(1) == 42
    assert repeated_by() == "EDDYLINE_SEED=41"
