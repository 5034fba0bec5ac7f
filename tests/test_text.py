"""Times, counts and long texts, written one way."""

from __future__ import annotations

import pytest

from cc_trace.text import plural, rfc3339, shortened


@pytest.mark.parametrize(
    ("time_ns", "expected"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123_999_999, "2023-11-14T22:13:20.123Z"),  # cut, not rounded
        (-1_000_000, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_cut_to_milliseconds(time_ns: int | None, expected: str | None) -> None:
    assert expected == rfc3339(time_ns)


def test_a_count_has_its_noun_and_groups_of_digits() -> None:
    assert [plural(0, "turn"), plural(1, "turn"), plural(1234, "turn")] == ["0 turns", "1 turn", "1,234 turns"]
    assert plural(2, "retry", "retries") == "2 retries"


def test_a_long_text_ends_with_an_ellipsis_within_its_limit() -> None:
    assert (shortened("four", 4), shortened("fives", 4)) == ("four", "fiv…")
