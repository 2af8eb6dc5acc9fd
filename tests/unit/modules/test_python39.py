"""What travels to hosts runs on the Python 3.9 of the RHEL 9 family, whatever Python these tests run on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TRAVELS = [*(ROOT / "plugins" / "module_utils" / "g35").glob("*.py"), *(ROOT / "plugins" / "modules").glob("*.py")]
# Later arguments and names: call -> keywords, module -> names.
KEYWORDS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}
NAMES = {"datetime": {"UTC"}, "enum": {"StrEnum"}, "itertools": {"pairwise", "batched"}, "types": {"NoneType"}}
# Keyword arguments of the standard library that came after 3.9 are not all known here; these modules are.
MODULES = {"tomllib"}


def later_than_39(source: str) -> Iterator[str]:
    """What in ``source`` Python 3.9 does not have. Raises SyntaxError for its syntax."""
    tree = ast.parse(source, feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield f"line {node.lineno}: match"
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from (
                f"line {node.lineno}: {name}({item.arg}=)"
                for item in node.keywords
                if item.arg in KEYWORDS.get(name, ())
            )
        elif isinstance(node, ast.ImportFrom):
            known = NAMES.get(node.module or "", set())
            yield from (f"line {node.lineno}: {node.module}.{item.name}" for item in node.names if item.name in known)
        elif isinstance(node, ast.Import):
            yield from (f"line {node.lineno}: {item.name}" for item in node.names if item.name in MODULES)
        elif isinstance(node, ast.ClassDef) and node.decorator_list:
            # schema.load evaluates the annotations of dataclasses, and a union written with | is an error there.
            unions = (
                item for part in node.body if isinstance(part, ast.AnnAssign) for item in ast.walk(part.annotation)
            )
            yield from (f"line {item.lineno}: | in a field" for item in unions if isinstance(item, ast.BinOp))


@pytest.mark.parametrize("path", TRAVELS, ids=lambda path: path.stem)
def test_it_needs_nothing_newer(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert not list(later_than_39(source))
    assert path.stem == "__init__" or "from __future__ import annotations" in source


@pytest.mark.parametrize(
    "source",
    [
        "zip([1], [2], strict=True)",
        "from datetime import UTC",
        "@dataclass(frozen=True)\nclass A:\n    x: int | None = None",
        "@dataclass(slots=True)\nclass A: pass",
    ],
)
def test_what_is_newer_is_noticed(source: str) -> None:
    assert list(later_than_39(source))


def test_newer_syntax_is_noticed() -> None:
    with pytest.raises(SyntaxError):
        list(later_than_39("match 1:\n    case 1: pass\n"))
