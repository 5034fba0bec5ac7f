"""Whether what a name is given may be a secret: source code and prose name secrets too.

The rule here: doubt is settled by how the value is written. Where only data stands anything may be one, in quotes what
is neither prose nor a placeholder, and amid code only what looks generated.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from string import ascii_letters, digits
from typing import Final, Literal, TypeAlias

from cc_trace.redact.patterns import ENDINGS, SUFFIX

# Where only data stands, in quotes, at the end of its line, or amid what may be code or prose.
Written: TypeAlias = Literal["data", "quoted", "line", "amid"]

# A key that ends so holds what stands behind this in a request.
HEADERS: Final = {"authorization": "authorization: ", "cookie": "cookie: "}
_KEYS: Final = (
    r"(?i)(?:api|app|access|account|admin|auth|client|decryption|deploy|encrypt|encryption|hmac|integration|jwt|license"
    r"|master|private|role|secret|service|session|shared|sign|signing|ssh|storage|subscription|webhook)[_ -]?key"
)
_WORD: Final = r"(?:pass|secret|token|key|cred|auth)"
_PLACEHOLDER: Final = (
    r"[-*.:x0_#?~\s\u2022\u2026]*\Z"
    r"|(?:true|false|yes|no|on|off|null|none|nil|undefined|void|unset|empty|missing|invalid|expired|required|optional|"
    r"default|inherit|include|omit|read|write|enabled|disabled|string|str|bytes|number|integer|int|boolean|bool|any|"
    r"unknown|never|object|dict|text|bearer|basic|example|placeholder|redacted|masked|hidden|removed|change_?me|todo|"
    r"tbd|n/a|value|here|fake|dummy|mock|test|sample)\W*\Z"
)
_REFERENCE: Final = (
    r"\$(?:[a-z_{(]|[0-9]+\Z)|[{<\[(]|%[sd({]|!(?:ref|sub|getatt|vault|secret|env|reference)\b|\\"
    r"|.*?(?:\$\{|\{\{|\$\(|#\{|<[a-z_ -]+>|\.\$|\.\.\.|\u2026)"
)
_PATH_OR_ADDRESS: Final = (
    r"(?:[a-z][a-z0-9+.-]*:)?//|(?:~|\.{1,2})?(?:/[\w.@+-]{1,64})+/?\Z|[a-z]:[\\/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z"
)
# What says itself that it is one: `your-api-key`, `access_token`, `self.password`.
_SELF_NAMED: Final = (
    rf"(?:test|mock|fake|dummy|example|sample|your|insert|replace|invalid|wrong|bad|expired)[-_ ].*?{_WORD}"
    rf"|(?=[a-z_.\- ]*?{_WORD})[a-z_.\- ]*[,;)}}\]]*\Z"
)
_NO_SECRET: Final = f"(?is){_PLACEHOLDER}|{_REFERENCE}|{_PATH_OR_ADDRESS}|{_SELF_NAMED}"
_NUMBER: Final = r"[-+]?[0-9][0-9_.,:-]{0,15}(?:e[-+]?[0-9]{1,3})?[a-zA-Z%]{0,2}\Z"
_LETTERS_AND_DIGITS: Final = r"(?s)(?=.*[0-9]).*[A-Za-z]"
_WORDS: Final = r"[A-Za-z]+[0-9]{0,2}(?:[_.-][A-Za-z]*[0-9]{0,2})+\Z"
_CODE: Final = r"[!&*]|.*[(){}\[\]<>|,;]|[A-Za-z_][\w$]*(?:(?:\?\.|\.|::|->)[A-Za-z_][\w$]*)+\Z"
_VARIABLE: Final = rf"(?i)(?=.*{_WORD})[a-z_]+[0-9]{{0,2}}[a-z_]*\Z"
_IDENTIFIER: Final = r"[A-Za-z_]+[0-9]{0,3}[A-Za-z_]*\Z|.*[$*]"
# In characters; shorter ones are rather examples than secrets.
_SHORTEST: Final[dict[Written, int]] = {"data": 3, "quoted": 4, "line": 6, "amid": 6}
_SHORTEST_PIN: Final = 6
_SHORTEST_TOKEN: Final = 8
# Where a shell, a URL or a connection string ends a value, and what code puts behind one.
_NEXT: Final = r"[;&][\w .-]+="
_BEHIND: Final = ",;&)}]>|."


@cache
def compiled(expression: str) -> re.Pattern[str]:
    """Compile on first use: most expressions are never needed, and all of them together would slow a start down."""
    return re.compile(expression, re.ASCII)


def may_be_secret(name: str, value: str, written: Written) -> bool:
    """Tell a secret from a placeholder, a reference, a type, a number, a path or prose.

    A password may be any word; what is generated (a token, a key) has digits among its letters.
    """

    def is_(expression: str) -> bool:
        return compiled(expression).match(value) is not None

    if len(value) < _SHORTEST["data"]:
        return False
    if (written in ("line", "amid") and not is_(_LETTERS_AND_DIGITS)) or is_(_NO_SECRET):
        return False
    if is_(_NUMBER):
        return "password" in name and written in ("data", "quoted") and len(value) >= _SHORTEST_PIN
    generated = is_(_LETTERS_AND_DIGITS) and not is_(_WORDS)
    if written == "data":
        return generated or name not in ("auth", "credentials")
    if len(value) < _SHORTEST[written] or compiled(r"\s").search(value):
        return False
    if written == "quoted":
        return name in ("password", "secret") or (generated and len(value) >= _SHORTEST_TOKEN)
    if not generated or is_(_CODE) or is_(_VARIABLE):
        return False
    return written == "line" or not is_(_IDENTIFIER)


def assigned_secret(name: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Give where in the text the secret stands that a name is given, if it may be one."""
    text, at, group = match.string, match.start(), match.lastgroup or ""
    (start, end), value = match.span(group), match[group]
    if name == "key" and not compiled(_KEYS).search(text, max(0, at - 32), start):
        return None
    before = text[max(0, at - 48) : at]
    left = before[len(before.rstrip(ascii_letters + digits + "_-.$")) :]
    upper, direct = match[0][:3].isupper(), match["is"] == "="
    written: Written = "quoted"
    if group == "argument":
        if not left.startswith("--"):
            return None
        written = "line"
    elif group == "quoted" and upper and direct:
        written = "data"
    elif group == "bare":
        value = re.split(_NEXT, value, maxsplit=1)[0].rstrip(_BEHIND)
        ends = len(value) == end - start and (text[end : end + 1] in "\n\r\\\"'`" or text[end : end + 2] == " #")
        end = start + len(value)
        ends = ends or (direct and text[end : end + 1] == ";")
        dashed = "-" in left
        setting = direct and (upper or dashed or before.removesuffix(left)[-1:] in ("?", "&"))
        yaml = ends and ":" in match["is"] and (dashed or (upper and "_" in left))
        written = "line" if ends else "amid"
        if setting or (yaml and not compiled(_CODE).match(value)):
            written = "data"
    return (start, end) if may_be_secret(name, value, written) else None


@lru_cache(maxsize=4096)
def kind_of(key: str) -> str | None:
    """Give the pattern that a key of JSON speaks of, or the one of `HEADERS`, or None if it speaks of no secret."""
    for header in HEADERS:
        if key.lower().endswith(header):
            return header
    for name, ending in ENDINGS.items():
        if compiled(rf"(?i)(?:{ending}){SUFFIX}\Z").search(f'"{key}'):
            return name if name != "key" or compiled(_KEYS).search(key) else None
    return None
