"""Whether what stands in the place of a login's password may be one: commands, files and URLs tell by what is around.

The rule here: where the place is sure, any text is a password that is no placeholder; else it has to look generated.
"""

from __future__ import annotations

import binascii
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cc_trace.redact.names import compiled, may_be_secret

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

# How far before an option its command may begin, in characters.
_COMMAND: Final = 256
_CURL: Final = r"(?:^|[^\w.-])(?:curl|curlie|wget|xh|https?)(?:\.exe)?\s"
_LOGIN: Final = r"(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm|registry|az|oc|cf)\s+login\s|\bsshpass\s"
_COMMAND_END: Final = r"(?<!\\)\n|&&|\|"
# In one line with its machine, else in a line of its own: prose has words like those too.
_NETRC: Final = (
    r"(?:\bmachine\s+\S{1,99}|(?:\A|\n)default)\s+login\s+(?!and\b|or\b)\S{1,99}\s+pas\Z"
    r"|(?:\A|\n)[ \t]*login[ \t]+\S{1,99}\s*\n\s*pas\Z"
)
_LETTERS_AND_DIGITS: Final = r"(?s)(?=.*[0-9]).*[A-Za-z]"
# Two digits at least with a letter behind: names have their digits at their end.
_GENERATED: Final = r"(?:.*?[0-9][A-Za-z]){2}"


def _is_password(name: str, found: re.Match[str]) -> bool:
    return may_be_secret(name, found[found.lastgroup or 0], "login")


def _in_command(expression: str, found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - _COMMAND) : found.start()] + " "
    command = compiled(_COMMAND_END).split(before)[-1]
    return compiled(expression).search(command) is not None and _is_password("command line password", found)


def _curl(found: re.Match[str]) -> bool:
    return _in_command(_CURL, found)


def _login(found: re.Match[str]) -> bool:
    return _in_command(_LOGIN, found)


def _netrc(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - _COMMAND) : found.start()]
    return compiled(_NETRC).search(before) is not None and _is_password("netrc password", found)


def _slashed(found: re.Match[str]) -> bool:
    return compiled(_LETTERS_AND_DIGITS).match(found["slashed"]) is not None and _is_password("url password", found)


def _userinfo(found: re.Match[str]) -> bool:
    return compiled(_GENERATED).match(found["userinfo"]) is not None and _is_password("url password", found)


def _basic(found: re.Match[str]) -> bool:
    """Tell whether it is base64 of a name, a colon and a password."""
    value = found["basic"].rstrip("=")
    try:
        login = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode()
    except ValueError:
        return False
    return ":" in login and login.isprintable()


# By the group that holds the password.
LOGINS: Final[Mapping[str, Callable[[re.Match[str]], bool]]] = MappingProxyType(
    {"curl": _curl, "login": _login, "netrc": _netrc, "slashed": _slashed, "userinfo": _userinfo, "basic": _basic}
)
