"""Where tests find recorded sessions: our own small cases, and the larger material beside the repository if present."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases"
SHARED = ROOT.parent / "shared"


def case_transcripts() -> list[Path]:
    """The main transcripts of our own cases."""
    return main_files(CASES)


def recordings() -> list[Path]:
    """The main transcripts of recorded runs of the real CLI, where they are at hand."""
    return main_files(SHARED / "recordings")


def corpus() -> list[Path]:
    """Public transcripts, where they are at hand."""
    return sorted((SHARED / "corpus").glob("*.jsonl"))


def everything() -> list[Path]:
    """All of them."""
    return [*case_transcripts(), *recordings(), *corpus()]


def label(path: Path) -> str:
    """A short name for a parametrized test."""
    return "/".join(path.relative_to(ROOT.parent).parts[-4:])


def main_files(folder: Path) -> list[Path]:
    """The main transcripts below a folder."""
    found = folder.glob("**/*.jsonl")
    return sorted(
        path
        for path in found
        if not path.name.startswith("agent-") and path.name not in ("hooks.jsonl", "spans.jsonl", "journal.jsonl")
    )
