"""Pictures are written, and look like pictures."""

from bench import plots

PNG = b"\x89PNG"


def test_bars_and_lines_write_png_files(tmp_path):
    bars = plots.bars(
        tmp_path / "a" / "bars.png",
        "Seconds",
        ["W1", "W2"],
        {"ours": [1.0, 2.0], "theirs": [3.0, float("nan")]},
        unit="s",
    )
    lines = plots.lines(
        tmp_path / "lines.png", "Growth", [1, 4, 16], {"ours": [1.0, 4.1, 16.2]}, across="length", unit="s", log=True
    )
    assert bars.read_bytes()[:4] == PNG
    assert lines.read_bytes()[:4] == PNG
