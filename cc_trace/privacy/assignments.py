"""Decides whether a value assigned to a name may be a secret. Source code and prose mention such names, too.

Rule: when in doubt, the value's notation decides. In plain data any value may be a secret; in quotes, any that is
neither prose nor a placeholder; within code, only one that looks generated. If the key is, or ends in, `password`,
`passwd` or `passphrase`, a text is a secret unless it is empty, a placeholder, a reference, a path or prose: more than
6 words or 100 characters, or the wording of a form or an error message ("Enter it twice", "is too short").

The expression `_VALUE` in `patterns` finds the value; its groups are explained there.
"""

from __future__ import annotations

import binascii
import re
from functools import cache, lru_cache
from string import ascii_letters, digits
from typing import Final, Literal, TypeAlias

from cc_trace.privacy.patterns import ENDINGS, LONGEST, SUFFIX

# In a login's password position, under a password key, in plain data, in quotes, after a command's option, at the end
# of its line, or within what may be code or prose.
Notation: TypeAlias = Literal["login", "password", "data", "quoted", "argument", "line", "amid"]

# A key with this ending holds what follows this prefix in a request.
HEADERS: Final = {"authorization": "authorization: ", "cookie": "cookie: "}
_KEY_WORDS: Final = (
    *("api", "app", "access", "account", "admin", "auth", "client", "decryption", "deploy", "encrypt", "encryption"),
    *("hmac", "integration", "jwt", "license", "master", "private", "role", "secret", "service", "session", "shared"),
    *("sign", "signing", "ssh", "storage", "subscription", "webhook"),
)
_LONGEST_KEY_WORD: Final = max(map(len, _KEY_WORDS)) + 1  # including the separator before `key`
_KEYS: Final = rf"(?i)(?:{'|'.join(_KEY_WORDS)})[_ -]?key"
# A variable named `..._KEY` with a value that looks generated is a secret, except for these.
_ANY_KEY: Final = (
    r"(?<![A-Z0-9_])(?!(?:[A-Z0-9]+_)*(?:PUBLIC|CACHE|PRIMARY|FOREIGN|SORT|PARTITION|HOST)_)[A-Z0-9_]+_KEY\Z"
)
_ANY_KEY_VALUE: Final = r"(?=.*[0-9])(?=.*[A-Za-z])(?:[A-Za-z0-9]{16,}|(?=.*[0-9][A-Za-z])[\w+/=-]{16,})\Z"
_WORD: Final = r"(?:pass|secret|token|key|cred|auth)"
_DOTS: Final = r"[-*.:x0_#?~\s\u2022\u2026]*\Z"
_PLACEHOLDER: Final = (
    r"(?:required|nullable|string|sometimes)(?:\|[a-z_]+(?::[\w,]+)?)+\Z"
    r"|(?:true|false|yes|no|on|off|null|none|nil|undefined|void|unset|empty|missing|invalid|expired|required|optional|"
    r"default|inherit|include|omit|read|write|enabled|disabled|string|str|bytes|number|integer|int|boolean|bool|any|"
    r"unknown|never|object|dict|text|bearer|basic|example|placeholder|redacted|masked|hidden|removed|change_?me|todo|"
    r"tbd|n/a|value|here|fake|dummy|mock|test|sample|enter)\W*\Z"
)
_REFERENCE: Final = (
    r"\$(?:[a-z_{(]|[0-9]+\Z)|[{<\[(]|%[sd({]|!(?:ref|sub|getatt|vault|secret|env|reference)\b|\\"
    r"|.*?(?:\$\{|\{\{|\$\(|#\{|<[a-z_ -]+>|\.\$|\.\.\.|\u2026)"
)
_PATH_OR_ADDRESS: Final = (
    r"(?:projects|secrets?|kv|arn:[a-z-]{3,10})[/:][\w./:@+*-]*\Z"
    r"|(?:[a-z][a-z0-9+.-]*:)?//|(?:~|\.{1,2})?(?:/[\w.@+-]{1,64})+/?\Z|[a-z]:[\\/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z"
)
# A placeholder that names itself: `your-api-key`, `access_token`, `self.password`. In a certain position it must
# consist only of such words: a password may well be `monkeybusiness`.
_EXAMPLE: Final = (
    rf"(?:test|mock|fake|dummy|example|sample|your|insert|replace|invalid|wrong|bad|expired)[-_ ].*?{_WORD}"
)
_SELF_NAMED: Final = rf"(?=[a-z_.\- ]*?{_WORD})[a-z_.\- ]*[,;)}}\]]*\Z"
_OWNERS: Final = (
    r"(?:(?:your|my|the|an?|some|new|old|db|database|user|admin|root|app|service|account|session|login|id|jwt|github"
    r"|openai|aws|self|this|config|settings|env|process|secrets|state|props|data|form|body|args|kwargs|options|request"
    r"|req|params)[_\-. ]+|(?:access|refresh|client|bearer|api|auth|private|public|secret)[_\-. ]*)*"
)
_NAMED_IN_FULL: Final = (
    rf"{_OWNERS}(?:pass|password|passwd|passwort|passphrase|pwd|secret|token|key|creds?|credentials?|auth|authorization)s?"
    r"(?:[_\-. ]+(?:key|here|value|goes|name|field|hash|string|text|id|pass|password|token|secret|base))*[,;)}\]]*\Z"
)
# Numbers of attacks, weaknesses and standards, which appear in texts about secrets.
_CATALOGUE: Final = r"(?:t[0-9]{4}(?:\.[0-9]{3})?|(?:cve|cwe|capec|rfc|iso)[- ]?[0-9]{2,5}(?:-[0-9]{1,7})?)\W*\Z"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{4,18}(?:Z|[+-][0-9:]{4,5})?\Z"
_NO_SECRET: Final = f"(?is){_DOTS}|{_PLACEHOLDER}|{_CATALOGUE}|{_TIME}|{_REFERENCE}|{_PATH_OR_ADDRESS}|{_EXAMPLE}"
_NO_SURE_SECRET: Final = f"{_NO_SECRET}|{_NAMED_IN_FULL}"
_NO_DOUBTED_SECRET: Final = f"{_NO_SECRET}|{_SELF_NAMED}"
_NO_LOGIN: Final = rf"(?is){_DOTS}|{_REFERENCE}|{_NAMED_IN_FULL}|(?:redacted|masked|hidden|removed)\Z"
_NUMBER: Final = r"[-+]?[0-9][0-9_.,:-]{0,15}(?:e[-+]?[0-9]{1,3})?[a-zA-Z%]{0,2}\Z"
# Or padded base64.
_LETTERS_AND_DIGITS: Final = r"(?s)(?=.*[0-9]).*[A-Za-z]|[A-Za-z0-9+/]{6,}={1,2}\Z"
_WORDS: Final = r"[A-Za-z]+[0-9]{0,2}(?:[_.:-][A-Za-z]*[0-9]{0,3})+\Z"
_CODE: Final = r"[!&*]|.*[(){}\[\]<>|,;]|[A-Za-z_][\w$]*(?:(?:\?\.|\.|::|->)[A-Za-z_][\w$]*)+\Z"
# Names in code do not have this many digits followed by a letter.
_SURELY_GENERATED: Final = r"(?=(?:.*?[0-9][A-Za-z]){6})[\w.=+/~-]{32,}\Z"
_VARIABLE: Final = rf"(?i)(?=[a-z_]++[0-9]{{0,2}}+[a-z_]*+\Z).*{_WORD}"
_PROSE: Final = (
    r"(?is).{101}|(?:\S+\s+){6}\S|(?:\S+\s+){2}.*[.?:]\Z|(?=\S+\s)(?:.*\s)?pass(?:word|wort|phrase|code|e)s?\b"
    r"|(?:please|enter|re-?enter|repeat|type|choose|create|confirm|your|the|a|an|this|that|use|show|hide|set|must|should"
    r"|is|are|was|has|have|does|do|can|can't|cannot|could|too|not|no|at|minimum|invalid|wrong|incorrect|forgot|forgotten"
    r"|same|see|if|when|for|with|new|old|current)\s"
)
# A password as a command's argument: not a plain word, judging by its case or symbols.
_NO_WORD: Final = r"(?s)(?=.*[A-Za-z]).*[0-9!@#%^*+~]|.*[a-z].*[A-Z]"
_CONNECTION_WORDS: Final = (
    *("server", "data source", "address", "host", "hostname", "user", "user id", "userid", "username", "uid"),
    *("database", "initial catalog", "driver", "dsn", "port"),
)
_CONNECTION: Final = rf"(?i:{'|'.join(_CONNECTION_WORDS)})[ ]?="
_MAX_PARAMETERS: Final = 5  # parameters of a connection string checked before its password
_LONGEST_PARAMETER: Final = 99
_CONNECTION_VALUE: Final = r"[^;'\"`\\\s]++(?: [^;'\"`\\\s]++){0,5}+(?=;)|[^;'\"`\\\s]++"
_LIBPQ: Final = r"\b(?:host|hostaddr|port|dbname|user|sslmode)"
# Named arguments, as in commands and PHP.
_NAMED_ARGUMENT: Final = (
    r"(?:--from-literal=|--set(?:-string)?[ =]|\s-d |--data(?:-raw|-urlencode)? |\bkv put \S{1,32} )['\"]?[^\s'\"]*\Z"
)
_DEFINE: Final = r"\bdefine\(\s{0,4}['\"]\w*\Z"
# A call that sets a value, and any other call.
_SETTER: Final = r"(?i:set|put|add|env|header|property|config|assign|store)\w{0,24}\(\s{0,4}\\{0,7}['\"][\w.-]*\Z"
_CALL: Final = r"\w\(\s{0,4}\\{0,7}['\"][\w.-]*\Z"
_PLAINLY_GENERATED: Final = r"(?=(?:.*?[0-9][A-Za-z]){3})[\w+/=~-]{16,256}\Z"
_UUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z"
_IDENTIFIER: Final = r"[A-Za-z_]++[0-9]{0,3}+[A-Za-z_]*+\Z|.*[$*]"
# In characters. Shorter ones are more likely examples than secrets.
_SHORTEST: Final[dict[Notation, int]] = {
    "login": 1,
    "password": 1,
    "data": 3,
    "quoted": 4,
    "argument": 4,
    "line": 6,
    "amid": 6,
}
_SHORTEST_PIN: Final[dict[Notation, int]] = {"password": 4, "data": 6, "quoted": 6, "argument": 6}
_SHORTEST_TOKEN: Final = 8
# A terraform plan shows the old value and the new one.
_CHANGED: Final = r"\\{0,7}\" -> \\{0,7}\"[^\"\\\r\n]{1,256}"
_OF_NAMES: Final = ascii_letters + digits + "_-.$"  # characters
# How much of the text before an ending of a name is checked, in characters.
_BEFORE: Final = 48
_LONGEST_KEY_WORDS: Final = 32
# Where a shell, a URL or a connection string ends a value, and what follows one in code.
_NEXT: Final = r"[;&][\w .-]+="
_BEHIND: Final = ",;&)}]>|."


@cache
def compiled(expression: str) -> re.Pattern[str]:
    """Compile an expression on first use. Most are never needed, and compiling all would slow down the start."""
    return re.compile(expression, re.ASCII)


def may_be_secret(name: str, value: str, notation: Notation) -> bool:
    """Return whether a value may be a secret, not a placeholder, a reference, a type, a number, a path or prose.

    A password can be any word. Generated values (tokens, keys) have digits among their letters.
    """

    def is_(expression: str) -> bool:
        return compiled(expression).match(value) is not None

    if len(value) < _SHORTEST[notation] or (notation in ("line", "amid") and not is_(_LETTERS_AND_DIGITS)):
        return False
    if notation == "login":
        return not is_(_NO_LOGIN)
    if is_(_NO_SURE_SECRET if notation in ("password", "data") else _NO_DOUBTED_SECRET):
        return False
    if is_(_NUMBER):
        return "password" in name and len(value) >= _SHORTEST_PIN.get(notation, LONGEST)
    if notation == "password":
        return not is_(_PROSE)
    generated = is_(_LETTERS_AND_DIGITS) and not is_(_WORDS)
    if notation == "data":
        return generated or name not in ("auth", "credentials")
    if compiled(r"\s").search(value):
        return False
    if name == "auth" and is_basic_login(value):
        return True
    if notation == "quoted":
        return name in ("password", "secret") or (generated and len(value) >= _SHORTEST_TOKEN)
    if (is_(_CODE) and not is_(_SURELY_GENERATED)) or is_(_VARIABLE):
        return False
    if notation == "argument" and name == "password":
        return is_(_NO_WORD)
    return generated and len(value) >= _SHORTEST["line"] and (notation != "amid" or not is_(_IDENTIFIER))


def is_basic_login(value: str) -> bool:
    """Return whether a value is the base64 of `NAME:PASSWORD`."""
    value = value.rstrip("=")
    if not compiled(r"[A-Za-z0-9+/]{6,}\Z").match(value):
        return False
    try:
        login = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode()
    except ValueError:
        return False
    return ":" in login and login.isprintable()


def is_password_key(key: str) -> bool:
    """Return whether a key ends in `password` or the like. `pass` and `pwd` do not count: they have other meanings."""
    return compiled(rf"(?i)pass(?:word|wd|phrase){SUFFIX}\Z").search(key) is not None


def assigned_secret(name: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of the value assigned to a name, if it may be a secret.

    A match begins with the ending of a name (`_PASSWORD` of `DB_PASSWORD`) and ends with the value, in the group named
    after its notation (see `_VALUE` in `patterns`).
    """
    text, at, group = match.string, match.start(), match.lastgroup or ""
    (start, end), value = match.span(group), match[group]
    before = text[max(0, at - _BEFORE) : at]
    if (
        name == "key"
        and not _is_secret_key(text[max(0, at - _LONGEST_KEY_WORDS) : start])
        and not _any_key(match, before)
    ):
        return None
    name_start = before[len(before.rstrip(_OF_NAMES)) :]  # the beginning of the name: `DB`
    notation: Notation | None = "quoted"
    match group:
        case "element" if not value.isalnum() and any(map(str.isspace, value)):
            return _element_span(name, match)
        case "argument" if name_start.startswith("--"):
            notation = "argument"
        case "argument" | "listed":
            return (start, end) if _is_plainly_generated(name, value) else None
        case "option":
            notation = _call_notation(before, name_start)
        case "quoted":
            notation = _quoted_notation(match)
        case "bare":
            if name == "password" and (password := _connection_value(match, name_start)):
                return password if may_be_secret(name, text[slice(*password)], "login") else None
            value = compiled(_NEXT).split(value, maxsplit=1)[0].rstrip(_BEHIND)
            end = start + len(value)
            notation = _bare_notation(match, end, before, name_start) if len(value) >= _SHORTEST["data"] else None
    if notation is None or not may_be_secret(name, value, notation):
        return None
    change = compiled(_CHANGED).match(text, end) if group == "quoted" else None
    return start, change.end() if change else end


def may_name_key(text: str, start: int) -> bool:
    """Return whether a name that ends in the `key` at `start` may be a secret's. A cheap check that comes first."""
    name = text[start : start + 4].lower()
    return (
        name == "apik"
        or text.startswith("_KEY", start)
        or (text[max(0, start - _LONGEST_KEY_WORD) : start].rstrip("_ -").lower().endswith(_KEY_WORDS))
    )


def _is_secret_key(words: str) -> bool:
    """Return whether a text names a secret key. It is searched for the words before `key` first, which is cheap."""
    lowered = words.lower()
    return any(word in lowered for word in _KEY_WORDS) and compiled(_KEYS).search(words) is not None


def _call_notation(before: str, name_start: str) -> Notation | None:
    """Classify a value in quotes that follows a name in quotes, or an option; None if it is not the name's value."""
    if compiled(_DEFINE).search(before):
        return "data"
    if name_start.startswith("--") or compiled(_SETTER).search(before):
        return "quoted"
    return "argument" if compiled(_CALL).search(before) else None


def _is_plainly_generated(name: str, value: str) -> bool:
    """Return whether a value that merely follows a name, as in prose or a table, is a secret and not a hash or id."""
    if not compiled(_PLAINLY_GENERATED).match(value) or compiled(_UUID).match(value):
        return False
    return name in ("password", "secret") or not compiled(r"[0-9a-f]+\Z|[0-9A-F]+\Z").match(value)


def _element_span(name: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Return the span of an element's words, if one of them may be a secret."""
    words = (word.strip("{}()[]") for word in match["element"].split())
    is_secret = any(len(word) >= _SHORTEST_TOKEN and may_be_secret(name, word, "line") for word in words)
    return match.span("element") if is_secret else None


def _quoted_notation(match: re.Match[str]) -> Notation:
    """Classify a value in quotes: data after `NAME=`, a password under a password key, else quoted."""
    upper, direct = match[0][:3].isupper(), match["is"] == "="
    if upper and direct:
        return "data"
    text, at, value = match.string, match.start("is"), match["quoted"]
    key = text[max(0, match.start() - 8) : at].rstrip("\\'\"`]")
    # A key in quotes is data. Otherwise the quote may end a text: `ask("Password: ") + "..."`.
    is_assigned = text[at - 1] in "'\"`]" or (len(value) >= _SHORTEST["quoted"] and value[0] not in "),;:+ ")
    return "password" if is_assigned and text.startswith(match["q"], match.end()) and is_password_key(key) else "quoted"


def _bare_notation(match: re.Match[str], end: int, before: str, name_start: str) -> Notation:
    """Classify a value without quotes that ends at `end`. `name_start` is the beginning of its name."""
    text, upper, direct = match.string, match[0][:3].isupper(), match["is"] == "="
    ends_line = end == match.end("bare") and (text[end : end + 1] in "\n\r\\\"'`" or text[end : end + 2] == " #")
    ends_line = ends_line or (direct and text[end : end + 1] == ";")
    dashed = "-" in name_start
    ansible = name_start.startswith("ansible_")
    is_setting = direct and (
        upper
        or dashed
        or ansible
        or before.removesuffix(name_start)[-1:] in ("?", "&")
        or compiled(_NAMED_ARGUMENT).search(before) is not None
        or (ends_line and _is_property(match, name_start))
        or (name_start == "pas" and _is_libpq(match, end, before))
    )
    is_yaml = ends_line and ":" in match["is"] and (dashed or ansible or (upper and "_" in name_start))
    if is_setting or (is_yaml and not compiled(_CODE).match(match.string, match.start("bare"), end)):
        return "data"
    return "line" if ends_line else "amid"


def _any_key(match: re.Match[str], before: str) -> bool:
    """Return whether a variable that ends in `_KEY` has a value that looks generated."""
    name = before + match.string[match.start() : max(match.start(), match.start("is"))]
    value = match[match.lastgroup or 0]
    return (
        match["is"] == "="
        and compiled(_ANY_KEY).search(name) is not None
        and compiled(_ANY_KEY_VALUE).match(value) is not None
    )


def _is_property(match: re.Match[str], name_start: str) -> bool:
    """Return whether this is a line of a properties file, `a.b.password=c`."""
    at = match.start() - len(name_start)
    return (
        name_start.count(".") > 1
        and match.string[max(0, at - 1) : at] in ("", "\n")
        and name_start[:5] not in ("this.", "self.")
    )


def _is_libpq(match: re.Match[str], end: int, before: str) -> bool:
    """Return whether this is one of a connection's parameters, `host=a password=b user=c`."""
    next_parameter = compiled(rf" {_LIBPQ}=").match(match.string, end)
    return next_parameter is not None or compiled(rf"{_LIBPQ}=[^\s,()]{{1,40}} pas\Z").search(before) is not None


def _connection_value(match: re.Match[str], name_start: str) -> tuple[int, int] | None:
    """Return the span of the password if this is a connection string, `Server=a;User Id=b;Password=c;`."""
    if "=" not in match["is"] or "." in name_start:
        return None
    text, at = match.string, match.start() - len(name_start)
    value = compiled(_CONNECTION_VALUE).match(text, match.start("bare"), match.start("bare") + LONGEST)
    if value is None:
        return None
    before, after = text[max(0, at - LONGEST) : at], text[value.end() : value.end() + LONGEST]
    if _is_connection(before):
        return value.span()
    return value.span() if compiled(rf";[ ]?{_CONNECTION}").match(after) else None


def _is_connection(before: str) -> bool:
    """Return whether a text ends with parameters of a connection string, `Server=a;User Id=b;`."""
    *parameters, rest = before.rsplit(";", _MAX_PARAMETERS + 1)
    if rest.strip(" "):
        return False
    for parameter in reversed(parameters):
        name, _, value = parameter.partition("=")
        if not name or "=" in value or len(value) > _LONGEST_PARAMETER or "=" not in parameter or "\n" in value:
            return False
        if name.rstrip(" ").lower().endswith(_CONNECTION_WORDS):
            return True
    return False


@lru_cache(maxsize=4096)
def kind_of(key: str) -> str | None:
    """Return the pattern or the key of `HEADERS` that a JSON key names, or None if it does not name a secret."""
    for header in HEADERS:
        if key.lower().endswith(header):
            return header
    for name, ending in ENDINGS.items():
        if compiled(rf"(?i)(?:{ending}){SUFFIX}\Z").search(f'"{key}'):
            return name if name != "key" or compiled(_KEYS).search(key) or compiled(_ANY_KEY).search(key) else None
    return None
