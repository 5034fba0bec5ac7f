"""Decides whether the text in a login's password position is a password, from its context: a command, file or URL.

Rule: in a certain position any text but a placeholder is a password; elsewhere it must look generated.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cc_trace.privacy.assignments import compiled, is_basic_login, may_be_secret
from cc_trace.privacy.services import may_be_service_secret

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

# How far before an option its command may start, in characters. It is usually near, so the short distance comes first.
_COMMAND: Final = (64, 512)
_NEAR: Final = 256
_CURL: Final = r"(?:^|[^\w.-])(?:curl|curlie|wget|xh|https?)(?:\.exe)?\s"
_LOGIN: Final = (
    r"(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm|registry|az|oc|cf)\s+login\s|\b(?:sshpass|mongosh?)\s"
)
_JOINED: Final = r"(?:^|[^\w.-])(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|sshpass|7z)\s"
_COMMAND_END: Final = r"(?<!\\)\n|&&|\|"
_IN_QUOTES: Final = r"(?s)(?P<q>\\{0,7}['\"]).*?(?P=q)"
# On one line with its machine, or on a separate line: prose also has words like these.
_NETRC: Final = (
    r"(?:\bmachine\s+\S{1,99}|(?:\A|\n)default)\s+login\s+(?!and\b|or\b)\S{1,99}\s+pas\Z"
    r"|(?:\A|\n)[ \t]*login[ \t]+\S{1,99}\s*\n\s*pas\Z"
)
# A line of base64, with a line number, quoting or grep's prefix before it.
_KEY_LINE: Final = (
    r"(?:[\w./~-]{1,100}[:-][0-9]{1,6}[:-]|[\s0-9+>|'\",\u2192-]{0,64})([A-Za-z0-9+/]{4,}={0,2})[\s'\",]{0,4}\Z"
)
_SHORTEST_KEY_LINE: Final = 40
_LONGEST_KEY: Final = 16_384
_LETTERS_AND_DIGITS: Final = r"(?s)(?=.*[0-9]).*[A-Za-z]"
# At least two digits followed by a letter: names have their digits at the end.
_GENERATED: Final = r"(?:.*?[0-9][A-Za-z]){2}"


def _is_password(name: str, match: re.Match[str]) -> bool:
    return may_be_secret(name, match[match.lastgroup or 0], "login")


def may_be_in_command(match: re.Match[str]) -> bool:
    """Return whether a command may precede what looks like one of its options. A cheap check."""
    before = match.string[max(0, match.start() - _COMMAND[-1]) : match.start()]
    return any(name in before for name in COMMANDS[match.lastgroup or ""])


def _in_command(expression: str, match: re.Match[str]) -> bool:
    """Return whether a match is an option of such a command: no unquoted end of a command lies between them."""
    if not may_be_in_command(match):
        return False
    text, at = match.string, match.start()
    for distance in _COMMAND:
        if commands := list(compiled(expression).finditer(text, max(0, at - distance), at + 1)):
            break
    else:
        return False
    between = text[commands[-1].end() : at]
    if compiled(_COMMAND_END).search(between) and compiled(_COMMAND_END).search(compiled(_IN_QUOTES).sub("", between)):
        return False
    return _is_password("command line password", match)


def _curl(match: re.Match[str]) -> bool:
    return _in_command(_CURL, match)


def _login(match: re.Match[str]) -> bool:
    return _in_command(_LOGIN, match)


def _joined(match: re.Match[str]) -> bool:
    return _in_command(_JOINED, match)


def _netrc(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    return compiled(_NETRC).search(before) is not None and _is_password("netrc password", match)


def _url(match: re.Match[str]) -> bool:
    return _is_password("url password", match)


def _slashed(match: re.Match[str]) -> bool:
    return compiled(_LETTERS_AND_DIGITS).match(match["slashed"]) is not None and _url(match)


def _userinfo(match: re.Match[str]) -> bool:
    return compiled(_GENERATED).match(match["userinfo"]) is not None and _url(match)


def _basic(match: re.Match[str]) -> bool:
    return is_basic_login(match["basic"])


def _service(match: re.Match[str]) -> bool:
    return may_be_service_secret(match, compiled)


def password_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the password's span, up to the closing quote if it is quoted: it may have spaces."""
    start, end = match.span(match.lastgroup or 0)
    quote = compiled(r"\\{0,7}['\"]").search(match.string, match.start(), start)
    closing = match.string.find(quote[0], end, end + _NEAR) if quote else -1
    return (start, closing) if closing > 0 and "\n" not in match.string[end:closing] else (start, end)


def key_tail(match: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the last lines of a private key whose beginning was cut off."""
    text, first, last = match.string, match.start(), match.start()
    while last - first < _LONGEST_KEY:
        start = text.rfind("\n", max(0, first - _NEAR), max(0, first - 1)) + 1 or max(0, first - _NEAR)
        line = compiled(_KEY_LINE).match(text, start, first) if start < first else None
        # Only the last line may be short.
        if line is None or (first < last and len(line[1]) < _SHORTEST_KEY_LINE):
            break
        first = start
    return (first, match.end()) if last - first >= _SHORTEST_KEY_LINE else None


_HTTP_CLIENTS: Final = ("curl", "wget", "xh", "http")
# Groups of command options, each with texts, one of which is in anything its expression matches.
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "curl": _HTTP_CLIENTS,
        "jar": _HTTP_CLIENTS,
        "login": ("login", "sshpass", "mongo"),
        "joined": ("mysql", "mariadb", "sshpass", "7z"),
    }
)
# By the name of the group with the password.
LOGINS: Final[Mapping[str, Callable[[re.Match[str]], bool]]] = MappingProxyType(
    {
        "curl": _curl,
        "jar": _curl,
        "login": _login,
        "joined": _joined,
        "netrc": _netrc,
        "basic": _basic,
        "url": _url,
        "slashed": _slashed,
        "userinfo": _userinfo,
        "service": _service,
    }
)
