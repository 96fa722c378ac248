"""A number at the top of a module has a comment that says what it is; thresholds are in `tuning.py` (CONTRIBUTING.md)."""

import ast
from pathlib import Path

import pytest

import eddyline
from eddyline.tuning import Tuning

ROOT = Path(eddyline.__file__).parent
#: Kernels are compiled: their numbers are bit patterns, codes and bounds of arrays, and a change compiles them anew.
MODULES = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "kernels"]


def numbers(text: str) -> dict[str, bool]:
    """The names of a module whose value is a number, or a tuple of numbers; whether a comment stands above each.

    One comment may stand above several lines that follow each other.
    """
    lines = text.split("\n")
    found: dict[str, bool] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or not is_number(node.value):
            continue
        line = node.lineno - 2
        while line >= 0 and lines[line] and not lines[line].startswith(("#", " ", ")", "}", "from ", "import ")):
            line -= 1
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {ast.unparse(name): line >= 0 and lines[line].startswith("#") for name in names}
    return found


def is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(is_number, value.elts))
    if isinstance(value, ast.BinOp):
        return is_number(value.left) or is_number(value.right)
    return isinstance(value, ast.UnaryOp) and is_number(value.operand)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_numbers_of_modules_have_comments(path: Path) -> None:
    assert [name for name, commented in numbers(path.read_text()).items() if not commented] == []


def test_the_check_sees_a_number_without_a_comment() -> None:
    text = "#: Rows.\n_FEW = 8\n_MANY = 1 << 5\n\n_LOW, _HIGH = -(2**31), 2**31 - 1\nNAME = 'x'\nSWITCH = True\n"
    assert numbers(text) == {"_FEW": True, "_MANY": True, "_LOW": False, "_HIGH": False}


def test_every_threshold_of_tuning_is_used() -> None:
    """A number that no module reads decides nothing."""
    texts = "\n".join(path.read_text() for path in ROOT.rglob("*.py") if path.name != "tuning.py")
    plain = [name for name, value in vars(Tuning()).items() if isinstance(value, int | float)]
    nested = [
        name for value in vars(Tuning()).values() if hasattr(value, "__dataclass_fields__") for name in vars(value)
    ]
    own = (ROOT / "tuning.py").read_text()
    assert [name for name in plain + nested if f".{name}" not in texts and f"self.{name}" not in own] == []
