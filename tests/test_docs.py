"""Every example in the pages and in docstrings runs.

Answer   A page is run from top to bottom in a folder of its own, like a notebook. ```python snippets share one
         namespace.
         ```sql snippets are statements of one job, checked together at the end of the page. A comment before a snippet
         says more:
             <!-- file: job.sql -->   the snippet is the content of this file, for later snippets to use
             <!-- run -->             ```bash: run it; ```sql: run the page's statements up to here, results in
             `results/` <!-- error: text -->     the snippet is refused, and the message contains this text
             <!-- output -->          the snippet is what the one before it printed
             <!-- fresh -->           start over: empty folder, empty namespace, no statements
Limits   Other languages are only read; a fragment that is not meant to run is ```text.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import forks, needs

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("examples/*.md")])
#: Pages that start Spark belong to its suite: tests/spark/test_pages.py.
SPARK_PAGES = [page for page in PAGES if "import SparkSession" in page.read_text()]
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in ROOT.glob("src/eddyline/**/*.py")
    if ">>> " in path.read_text()
)
SNIPPET = re.compile(
    r"(?P<marks>(?:^[ ]*<!--[^\n]*-->[ ]*\n+)*)^(?P<indent>[ ]*)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Snippet:
    line: int
    language: str
    text: str
    marks: dict[str, str]


@dataclass
class Notebook:
    """What the snippets of a page share."""

    page: str
    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})
    statements: list[str] = field(default_factory=list)
    printed: str = ""

    def run(self, snippet: Snippet) -> None:
        if "file" in snippet.marks:
            target = self.folder / snippet.marks["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(snippet.text)
        elif "output" in snippet.marks:
            assert self.printed.strip() == snippet.text.strip(), f"{self.page}:{snippet.line}: printed something else"
        elif "error" in snippet.marks:
            said = self.refusal(snippet)
            assert snippet.marks["error"] in said, f"{self.page}:{snippet.line}: the message is\n{said}"
        elif snippet.language == "python":
            self.python(snippet)
        elif snippet.language == "sql":
            self.statements.append(snippet.text)
            if "run" in snippet.marks:
                self.succeed(
                    snippet.line,
                    self.eddyline("run", "--engine", "embedded", "--once", "--out", "results", "--overwrite"),
                )
        elif snippet.language == "bash" and "run" in snippet.marks:
            self.succeed(snippet.line, self.call(["bash", "-e", "-c", snippet.text]))

    def finish(self) -> None:
        """The statements that no snippet ran are still statements of our language, over streams that the page
        declares."""
        if self.statements:
            self.succeed(0, self.eddyline("check"))

    def python(self, snippet: Snippet) -> None:
        # Blank lines in front, so that a traceback shows the line of the page.
        code = compile("\n" * snippet.line + snippet.text, self.page, "exec")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, self.names)
        self.printed = output.getvalue()

    def refusal(self, snippet: Snippet) -> str:
        if snippet.language == "python":
            try:
                self.python(snippet)
            except Exception:
                return traceback.format_exc()
        else:
            ended = self.eddyline("check", statements=[*self.statements, snippet.text])
            if ended.returncode == 2:
                return ended.stdout
        pytest.fail(f"{self.page}:{snippet.line}: the snippet should be refused, and was not")

    def eddyline(
        self, command: str, *arguments: str, statements: list[str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        job = self.folder / "page.sql"
        job.write_text("\n".join(self.statements if statements is None else statements))
        return self.call([str(Path(sys.executable).with_name("eddyline")), command, job.name, *arguments])

    def call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([forks.server().path, str(Path(sys.executable).parent), os.environ["PATH"]])
        call = subprocess.run if command[0] == "bash" else forks.run
        return call(
            command,
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def succeed(self, line: int, ended: subprocess.CompletedProcess[str]) -> None:
        assert ended.returncode == 0, f"{self.page}:{line}: ended with {ended.returncode}\n{ended.stdout}"
        self.printed = ended.stdout


def snippets(text: str) -> list[Snippet]:
    found = []
    for match in SNIPPET.finditer(text):
        comments = [comment.partition(":") for comment in re.findall(r"<!--\s*(.*?)\s*-->", match["marks"])]
        marks = {name.strip(): value.strip() for name, _, value in comments}
        body = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.M)
        found.append(Snippet(text.count("\n", 0, match.start("text")), match["language"], body, marks))
    return found


def run_page(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook: Notebook | None = None
    for number, snippet in enumerate(snippets(text)):
        if notebook is None or "fresh" in snippet.marks:
            if notebook is not None:
                notebook.finish()
            place = folder / str(number)
            place.mkdir()
            monkeypatch.chdir(place)
            notebook = Notebook(name, place)
        notebook.run(snippet)
    if notebook is not None:
        notebook.finish()


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p not in SPARK_PAGES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    assert text.count("```") % 2 == 0, "a snippet is not closed"
    if any("APPROX_" in snippet.text for snippet in snippets(text)):
        needs.sketches()
    run_page(str(page.relative_to(ROOT)), text, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    prose = SNIPPET.sub("", page.read_text())
    targets = [
        target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose) if not re.match(r"[a-z]+:", target)
    ]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_a_page_is_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """
<!-- file: numbers/three.txt -->
```text
3
```
```python
from pathlib import Path
number = int(Path("numbers/three.txt").read_text())
```
then
```python
print(number + 1)
```
<!-- output -->
```text
4
```
<!-- error: ZeroDivisionError -->
```python
number / 0
```
<!-- run -->
```bash
cat numbers/three.txt
```
<!-- output -->
```text
3
```
<!-- fresh -->
```python
assert "number" not in globals()
```
"""
    assert [snippet.language for snippet in snippets(page)] == [
        "text",
        "python",
        "python",
        "text",
        "python",
        "bash",
        "text",
        "python",
    ]
    run_page("page.md", page, tmp_path, monkeypatch)


def test_statements_of_a_page_are_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = """
```python
import datetime, pathlib
import pyarrow as pa, pyarrow.parquet as pq
pathlib.Path("bids").mkdir()
pq.write_table(pa.table({"price": [1.0, 200.0], "ts": [datetime.datetime(2024, 1, 1)] * 2}), "bids/1.parquet")
```
```sql
CREATE STREAM bids (price DOUBLE, ts TIMESTAMP) WITH (format='parquet', path='bids', time='ts');
```
<!-- error: nobody -->
```sql
CREATE QUERY wrong AS SELECT nobody FROM bids;
```
<!-- run -->
```sql
CREATE QUERY high AS SELECT price FROM bids WHERE price > 100;
```
```python
assert pq.read_table("results/high")["price"].to_pylist() == [200.0]
```
"""
    run_page("page.md", page, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("snippet", "message"),
    [
        ("```python\nraise AssertionError('one is two')\n```", "one is two"),
        ("<!-- error: nothing -->\n```python\n1\n```", "should be refused"),
        ("<!-- run -->\n```bash\nexit 3\n```", "ended with 3"),
        ("```python\nprint(1)\n```\n<!-- output -->\n```text\n2\n```", "printed something else"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(
    snippet: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        run_page("page.md", snippet, tmp_path, monkeypatch)
