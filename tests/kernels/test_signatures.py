"""The list of kernels that are compiled before the tests: its types are those of Numba, and it is not far behind the
kernels."""

from __future__ import annotations

import json
from pathlib import Path

from tests import signatures


def test_types_come_back() -> None:
    for name, signature in json.loads(signatures.LIST.read_text()):
        assert [signatures.written(signatures.read(kind)) for kind in signature] == signature, name


def test_nine_of_ten_kernels_of_the_list_exist() -> None:
    names = {name for name, _ in json.loads(signatures.LIST.read_text())}
    gone = {name for name in names if signatures._kernel(name) is None}
    assert len(gone) <= len(names) / 10, (
        f"make signatures, then python -m tests.signatures --write src/eddyline/kernels: {sorted(gone)}"
    )


def test_a_list_that_is_behind_costs_nothing_but_time(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(signatures, "LIST", tmp_path / "list.json")
    wanted = [
        ["order.ascends", ["int64[1C]"]],
        ["order.no_such_kernel", ["int64"]],
        ["order.ascends", ["int64", "int64", "int64"]],
    ]
    signatures.LIST.write_text(json.dumps(wanted))
    assert signatures.main(["--jobs", "1"]) == 0
    assert "1 of 3 signatures are compiled" in capsys.readouterr().out


def test_the_list_is_made_from_a_cache(tmp_path: Path, monkeypatch) -> None:
    assert signatures.compiled("order.ascends", ["int64[1C]"])
    (folder,) = {Path(path).parent for path in [signatures._kernel("order.ascends")._cache._cache_file._index_path]}
    monkeypatch.setattr(signatures, "LIST", tmp_path / "list.json")
    assert signatures.main(["--write", str(folder)]) == 0
    assert ["order.ascends", ["int64[1C]"]] in json.loads((tmp_path / "list.json").read_text())
