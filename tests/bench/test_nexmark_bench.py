"""NEXMark as a benchmark: every query has a text for Flink, all engines get the same rows, the table is made of the
files."""

import json
import re

import pyarrow.csv
import pyarrow.parquet as pq

from bench.nexmark import __main__ as switch
from bench.nexmark import data as streams
from bench.nexmark import engines


def test_every_example_has_a_text_for_flink_that_reads_the_same_streams():
    texts = engines.texts(engines.ROOT / "bench" / "nexmark" / "flink.sql")
    assert set(engines.present()) - set(texts) == {"q6"}
    assert "OVER" in engines.cannot("flink", "q6") and engines.cannot("embedded", "q6") == ""
    for query in texts:
        read = {
            name for name in streams.STREAMS if re.search(rf"(FROM|JOIN|TABLE) {name}\b|, {name} [A-Z]\b", texts[query])
        }
        assert read == set(engines.reads(query)), query


def test_all_engines_get_the_same_rows(tmp_path):
    data = streams.make(500, 20, 2, tmp_path)
    assert data.files == 2
    for stream in streams.STREAMS:
        names = pq.read_table(data.folder / "parquet" / stream).column_names
        options = pyarrow.csv.ReadOptions(column_names=names)
        kinds = [
            sorted(
                str(row)
                for file in sorted((data.folder / kind / stream).glob("*.csv"))
                for row in pyarrow.csv.read_csv(file, options).to_pylist()
            )
            for kind in ("csv", "slots")
        ]
        assert kinds[0] == kinds[1] and len(kinds[0]) == data.rows[stream]


def test_the_switch_compares_numbers_of_results_and_writes_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDDYLINE_BENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EDDYLINE_PEERS", str(tmp_path / "none"))
    arguments = ["--rate", "200", "--seconds", "20", "--repeats", "1", "--results", str(tmp_path), "--query", "q12"]
    assert switch.main([*arguments, "--engine", "embedded", "flink"]) == 0
    assert "flink is left out: not installed" in capsys.readouterr().err
    record = json.loads((tmp_path / "q12.json").read_text())
    assert record["measures"][0]["samples"][0]["details"]["results"] == record["results"] > 0
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert len(lines) == 3 and lines[2].startswith("| q12 |") and len({line.count("|") for line in lines}) == 1
    monkeypatch.setattr(engines, "expected", lambda query, data: 7)
    assert switch.main([*arguments, "--engine", "embedded"]) == 1
    assert "expected 7" in capsys.readouterr().err
