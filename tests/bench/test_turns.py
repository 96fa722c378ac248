"""Two checkouts in turns: this checkout against itself, on the smallest case."""

import json

import pytest

from bench import turns


@pytest.mark.long
def test_a_checkout_is_about_as_fast_as_itself(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    assert (
        turns.main(
            ["--before", str(turns.ROOT), "--case", "W3", "--rounds", "1", "--results", str(tmp_path / "turns.json")]
        )
        == 0
    )
    found = json.loads((tmp_path / "turns.json").read_text())["cases"]["W3"]
    assert 0.2 < found["speed"]["cpu"] < 5
    assert "W3" in capsys.readouterr().out
