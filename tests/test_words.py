"""One word for each thing: a word that was replaced does not come back, in names or in texts."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
from shared import ROOT

TESTS = sorted({*(ROOT / "tests").rglob("*.py")} - {Path(__file__)})  # this file has all of these words
MODULES = sorted([*(ROOT / "cc_trace").rglob("*.py"), *TESTS])
# Replaced word -> the one that is used. Only those that mean nothing else anywhere.
WORDS = {
    "anchor": "link",
    "anchors": "links",
    "askable": "queryable",
    "mended": "fixed",
    "mood": "behaviour",
    "packing": "encoder",
    "parcel": "encoded span",
    "parcels": "encoded spans",
    "remedy": "fix",
    "repeatable": "idempotent",
    "surroundings": "runtime",
    "unspoken": "secret values",
    "wish": "stop flag",
    "workplace": "app",
}
# Names in which a word has another meaning: here a link's fragment.
EXCEPTIONS = {"tests/test_docs.py": {"anchor", "anchors"}}
NAMES = {
    "guarded": "run_check",
    "heard_in": "stop_on_interrupt",
    "held_back": "block_interrupts",
    "leave_out": "suppress",
    "left_out_for": "suppressed_by",
    "seen_in": "ending_from_process",
    "take_in": "unsuppress",
    "take_word": "take_request",
    "tied_to": "links",
    "told_by": "ending_from_hook",
    "told_ns": "hook_ns",
    "world": "runtime",
}
# What comments, docstrings, messages and docs do not say any more -> what they say. Only what means nothing else.
PHRASES = {
    r"\b(?:leaves?|left|look(?:s|ing)? for) word\b|\bword left\b": "leave a request",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bnobody saw\b": "got no response",
    r"\bparcels?\b": "encoded span",
    r"\bremed(?:y|ies)\b": "fix",
    r"\bstep(?:s|ped)? over\b": "skip",
    r"\bis wanted\b": "must be",
}
READ = sorted([*MODULES, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "hooks").glob("*-*")])


def identifiers(source: str) -> set[str]:
    return {
        token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NAME
    }


def replaced(name: str) -> str | None:
    """Return the word to use where a name has one that was replaced."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    found = next((word for word in map(str.lower, words) if word in WORDS), None)
    return NAMES.get(name.strip("_")) or (WORDS[found] if found else None)


@pytest.mark.parametrize(
    ("name", "word"),
    [("_parcel_of", "encoded span"), ("SpanAnchor", "link"), ("_take_word", "take_request"), ("anchored", None)],
)
def test_a_replaced_word_is_found_as_a_part_of_a_name(name: str, word: str | None) -> None:
    assert replaced(name) == word


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_has_a_word_that_was_replaced(path: Path) -> None:
    names = identifiers(path.read_text()) - EXCEPTIONS.get(str(path.relative_to(ROOT)), set())
    found = {name: word for name in names if (word := replaced(name)) is not None}
    assert found == {}


@pytest.mark.parametrize("path", READ, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_has_a_phrase_that_was_replaced(path: Path) -> None:
    text = " ".join(path.read_text().split())
    found = {
        match[0]: better for phrase, better in PHRASES.items() if (match := re.search(phrase, text, re.IGNORECASE))
    }
    assert found == {}
