"""`eddyline lab index`: what it prints and what it refuses."""

from __future__ import annotations

import io
import json

import pytest

from eddyline.cli.__main__ import main
from eddyline.plan.index_choice.index_costs import IndexCosts
from eddyline.plan.index_choice.workload import Workload
from eddyline.plan.tree.budget import SHIPPED_INDEX
from tests.oracle.index_choice import price

WORKLOAD = {
    "attributes": {"A": {"values": 2048}, "B": {"values": 2048}, "C": {"values": 2048}},
    "patterns": [
        {"on": ["A"], "weight": 4},
        {"on": ["A", "B"], "weight": 1},
        {"on": ["B"], "weight": 3},
        {"on": ["C"], "weight": 2},
    ],
    "row_rate": 1,
    "request_rate": 1,
    "window_rows": 16,
    "costs": {"hash": 0, "run": 0, "visit": 1},
}


@pytest.fixture
def eddyline(tmp_path, capsys, monkeypatch):
    """Runs `eddyline lab index …` on a document; gives back exit code, output and errors."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def call(document: object, *words: str) -> tuple[int, str, str]:
        path = tmp_path / "workload.json"
        path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        code = main(["lab", "index", str(path), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize("search", ["auto", "exact", "eprune", "rgreedy", "hybrid", "enumerate"])
def test_answers(eddyline, search) -> None:
    code, out, _ = eddyline(WORKLOAD, "--bits", "4", "--search", search)
    answer = json.loads(out)
    assert code == 0 and list(answer) == ["bits", "cost", "candidates", "seconds"]
    assert answer["bits"] == {"A": 2, "B": 1, "C": 1} and answer["cost"] == pytest.approx(5.8)
    assert answer["candidates"] == (7 if search in ("rgreedy", "hybrid") else 15) and answer["seconds"] > 0


def test_costs_come_from_calibration(eddyline, monkeypatch) -> None:
    plain = {name: value for name, value in WORKLOAD.items() if name != "costs"} | {"window_rows": 1e6}
    answer = json.loads(eddyline(plain)[1])
    given = Workload.from_document(plain)
    assert answer["cost"] == pytest.approx(price(given, SHIPPED_INDEX, tuple(answer["bits"].values())))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(plain)))
    assert main(["index", "-"]) == 0


def test_windows_and_shares_of_their_own(eddyline) -> None:
    """A pattern has rows of its own, an attribute shares that were measured."""
    document = WORKLOAD | {
        "attributes": {"A": {"shares": [1, 0.5, 0.5]}, "B": {}},
        "patterns": [{"on": ["A"], "weight": 1}, {"on": ["B"], "weight": 1, "rows": 32}],
    }
    answer = json.loads(eddyline(document, "--bits", "3")[1])
    assert answer["bits"] == {"A": 1, "B": 2} and answer["cost"] == pytest.approx(0.5 * 16 * 0.5 + 0.5 * 32 / 4)
    assert price(Workload.from_document(document), IndexCosts(0, 0, 1), (1, 2)) == pytest.approx(answer["cost"])


def changed(**parts: object) -> dict[str, object]:
    return WORKLOAD | parts


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "is not JSON"),
        ([], "holds no JSON object"),
        ({}, "needs attributes"),
        (changed(attributes={"A": 3}), "attribute A has another form"),
        (changed(attributes={"A": {"values": 0}}), "cannot have 0 values"),
        (changed(attributes={"A": {"values": True}}), "cannot have True values"),
        (changed(attributes={"A": {"shares": [0.5, 1]}}), "has shares"),
        (changed(attributes={f"a{i}": {} for i in range(63)}), "63 attributes"),
        (changed(patterns=[]), "needs patterns"),
        (changed(patterns=[{"on": "A", "weight": 1}]), "a pattern has another form"),
        (changed(patterns=[{"on": [1], "weight": 1}]), "by texts"),
        (changed(patterns=[{"on": ["a"], "weight": 1}]), "a pattern names a, which is no attribute"),
        (changed(patterns=[{"on": ["A"], "weight": -1}]), "weight is -1"),
        (changed(patterns=[{"on": ["A"], "weight": 0}]), "no weight"),
        (changed(patterns=[{"on": ["A"]}]), "a number for weight"),
        (changed(row_rate="fast"), "a number for row_rate"),
        (changed(window_rows=float("nan")), "window_rows is nan"),
        (changed(costs={"hash": 1}), "index costs have another form"),
        (changed(costs={"hash": 1, "run": 1, "visit": -1}), "visit is -1"),
        (changed(costs={"hash": 1, "run": 1, "visit": "x"}), "visit is 'x'"),
        (changed(rate=3), "does not know rate"),
    ],
)
def test_refused(eddyline, document, message) -> None:
    code, out, err = eddyline(document)
    assert code == 2 and not out and message in err and "hint:" in err


@pytest.mark.parametrize("bits", ["-1", "25"])
def test_bits_that_an_index_cannot_have(eddyline, bits) -> None:
    code, _, err = eddyline(WORKLOAD, f"--bits={bits}")
    assert code == 2 and f"cannot have {bits} bits" in err and "0 to 24" in err
    assert json.loads(eddyline(WORKLOAD, "--bits", "0")[1])["bits"] == {"A": 0, "B": 0, "C": 0}


def test_a_name_nearly_right(eddyline) -> None:
    document = changed(attributes={"source": {}}, patterns=[{"on": ["sorce"], "weight": 1}])
    assert "did you mean source?" in eddyline(document)[2]


def test_a_missing_file(capsys, tmp_path) -> None:
    assert main(["index", str(tmp_path / "nowhere.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_old_name_works(tmp_path, capsys) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(WORKLOAD))
    found = []
    for name in (["index"], ["lab", "index"]):
        assert main([*name, str(path), "--bits", "4"]) == 0
        found.append(json.loads(capsys.readouterr().out)["bits"])
    assert found[0] == found[1]
