"""`python -m tests.fuzz --seconds 600 [TARGET …]`: look for inputs that end the process, or that are read wrongly.

Answer   Each target runs in a process of its own, from its corpus on. An input that fails is written to
         `tests/fuzz/corpus/<target>/`, so that the next `make test` repeats it; the exit code says whether there was
         one.
State    `tests/fuzz/corpus`. What the run itself learns is thrown away.
Limits   With atheris, coverage of the package's Python code guides the inputs; code in C gives no coverage. Where
         atheris is not installed inputs are mutated at random.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
#: Pieces that formats are made of.
WORDS = [
    *(
        b"null",
        b"true",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\n",
        b"\r\n",
        b" ",
        b"\\u0000",
        b"\\ud800",
        b"\\",
        b"-",
        b"1e999",
        b"0x10",
    ),
    *(
        b'{"ts": "2024-01-01 00:00:00"}',
        b'"k":',
        b'"xs":[',
        b'"s":{"a":',
        b"NaN",
        b"\xff",
        b"\x00",
        b"\xed\xa0\x80",
        b"9999-12-31 23:59:59.999999",
    ),
    *(
        b",,,",
        b'""',
        b'";"',
        b"PAR1",
        b"<",
        b"/>",
        b"&amp;",
        b"<!ENTITY",
        b"9223372036854775808",
        b"2024-01-01T00:00:00+01:00",
        b"nan(1)",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _child(given.targets[0], given.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    names = given.targets or list(TARGETS)
    print(
        f"fuzz: {', '.join(names)}, {given.seconds} s each, {'with' if _has_atheris() else 'WITHOUT'} atheris",
        flush=True,
    )
    with ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(lambda name: _run(name, given.seconds), names))
    return 1 if any(results) else 0


def _has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def _run(name: str, seconds: int) -> bool:
    """Whether a target failed."""
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.fuzz", "--child", name, "--seconds", str(seconds)]
        began = time.monotonic()
        done = subprocess.run(command, env={**os.environ, "EDDYLINE_FUZZ": folder}, capture_output=True, check=False)
        runs = _last(done.stderr, b"stat::number_of_executed_units:") or _last(done.stdout, b"runs:")
        said = f"fuzz: {name}: {runs.decode() or '?'} inputs in {time.monotonic() - began:.0f} s"
        if done.returncode == 0:
            print(said, flush=True)
            return False
        for path in [*Path(folder).glob("crash-*"), *Path(folder).glob("current")]:
            data = path.read_bytes()
            kept = CORPUS / name / hashlib.sha256(data).hexdigest()[:16]
            kept.write_bytes(data)
            said += f"\nfuzz: {name} FAILED with {kept}"
        print(said + "\n" + (done.stdout + done.stderr)[-4000:].decode("utf-8", "replace"), flush=True)
        return True


def _last(text: bytes, word: bytes) -> bytes:
    found = [line.split(word)[1].strip() for line in text.splitlines() if word in line]
    return found[-1] if found else b""


def _child(name: str, seconds: int) -> None:
    folder = os.environ["EDDYLINE_FUZZ"]
    if not _has_atheris():
        from tests.fuzz.targets import TARGETS

        _mutate(TARGETS[name], name, seconds, folder)
        return
    import atheris

    # Numba cannot compile what is instrumented: kernels, and what imports them, are loaded before.
    import eddyline.kernels.texts.form_texts
    import eddyline.kernels.texts.json_text
    import eddyline.kernels.texts.text
    import eddyline.operators.expressions.evaluate
    import eddyline.state.columns  # noqa: F401

    with atheris.instrument_imports(include=["eddyline.connectors"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    words = Path(folder) / "words"
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS))
    learnt = Path(folder) / "learnt"
    learnt.mkdir()
    options = [
        f"-max_total_time={seconds}",
        "-max_len=1500",
        "-timeout=60",
        "-rss_limit_mb=4096",
        "-print_final_stats=1",
    ]
    atheris.Setup(
        [name, str(learnt), str(CORPUS / name), *options, f"-dict={words}", f"-artifact_prefix={folder}/"],
        TARGETS[name],
    )
    atheris.Fuzz()


def _mutate(target, name: str, seconds: int, folder: str) -> None:
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())] or [b""]
    draw, end, runs = random.Random(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.choice((1, 2, 4, 16))):
            low, high = sorted(draw.randrange(len(data) + 1) for _ in range(2))
            how = draw.randrange(5)
            if how == 0:
                data[low:low] = draw.choice(WORDS)
            elif how == 1:
                del data[low : min(high, low + 8)]
            elif how == 2 and low < len(data):
                data[low] = draw.randrange(256)
            elif how == 3:
                data[low:low] = data[low:high][:64]
            else:
                other = draw.choice(seeds)
                data[low:] = other[draw.randrange(len(other) + 1) :]
        # There when the process has died.
        (Path(folder) / "current").write_bytes(data)
        target(bytes(data[:8192]))
        runs += 1
    (Path(folder) / "current").unlink(missing_ok=True)
    print(f"runs: {runs}")


if __name__ == "__main__":
    sys.exit(main())
