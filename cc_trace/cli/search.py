"""`cc-trace search`: find a text in prompts, answers, and the inputs and outputs of tools."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import orjson

from cc_trace.cli.stored import up_to_date
from cc_trace.errors import CcTraceError
from cc_trace.store import questions
from cc_trace.text import local_time, plural, rfc3339, shortened

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


_MAX_HITS = 100


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print what was found, the best first; exit 1 if nothing was."""
    text = " ".join(options.text)
    if not text.strip():
        message = "the search text is empty; pass at least one word: `cc-trace search TEXT`"
        raise CcTraceError(message)
    with up_to_date(environment) as store:
        hits = questions.search(store, text, _MAX_HITS)
    if options.json:
        rows = [_json(hit) for hit in hits]
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        for hit in hits:
            _print(hit)
        if len(hits) == _MAX_HITS:
            print(f"these are the best {plural(_MAX_HITS, 'hit')}; add words to narrow the search")
        elif not hits:
            print("nothing found")
    return 0 if hits else 1


def _json(hit: questions.Hit) -> dict[str, object]:
    return {
        "session_id": hit.session_id,
        "title": hit.title,
        "turn": hit.turn,
        "place": _place(hit),
        "time": rfc3339(hit.start_ns),
        "span_id": hit.span_id,
        "snippet": _marked(hit.snippet),
    }


def _print(hit: questions.Hit) -> None:
    time = f" · {local_time(hit.start_ns)}" if hit.start_ns is not None else ""
    title = shortened(" ".join(hit.title.split()), 60)
    print(f"{hit.session_id[:8]}  {title} · turn {hit.turn} · {_place(hit)}{time}")
    print(f"  {_marked(' '.join(hit.snippet.split()))}")


def _place(hit: questions.Hit) -> str:
    match hit.kind:
        case "turn":
            return "prompt"
        case "generation":
            return "answer"
        case _:
            return hit.name


def _marked(snippet: str) -> str:
    return snippet.replace("\x01", "[").replace("\x02", "]")
