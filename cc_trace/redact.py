"""Secrets become `[masked: NAME]`; everything else stays as it is.

The rule here: no expression searches the text. One scan finds where a hint stands, and a pattern is tried there and
nowhere else; so the time is linear in the text, and text without hints costs the scan alone.
"""

from __future__ import annotations

import re
from codecs import utf_16_be_decode
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cc_trace.entries import JsonValue

__all__ = ["PATTERNS", "Pattern", "Redactor"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret.

    The expression is tried wherever one of the hints stands in the text, from the hint's first character on; a hint
    has at least three characters, all of them ASCII. What is masked is the group `secret`; or the group that matched
    last, if what it holds may be a secret; or, in an expression without groups, the whole match.
    """

    name: str
    expression: str
    hints: tuple[str, ...]


# A token begins after anything but a letter or a digit; but escapes and colours end in one.
_START: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[[0-9]m)|(?<=[\[;][0-9]{2}m))"
)
_QUOTE: Final = r"\\{0,7}['\"`]"
BARE: Final = r"[^\s'\"`\\\x1b]"
# How much of a bare value an expression takes; of a secret the rest is masked as well.
LONGEST: Final = 256
# Between a name and its value, with the quotes that may stand around either.
_IS: Final = rf"(?:{_QUOTE}\]?)?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?"

# How the names of secrets end. Of keys only some are secret, see `names`.
ENDINGS: Final = {
    "password": r"(?<=pas)sword|(?<=[^/]pa)sswd|(?<=pass)phrase|[_\-'\"]pass|[_-]?pwd",
    "secret": r"(?<=s)ecret",
    "token": r"(?<=t)(?<!next_t)(?<!nextt)(?<!page_t)(?<!paget)(?<!publickeyt)oken",
    "key": r"(?:[_-]|api)?key",
    "credentials": r"[_'\"]credentials?",
    "auth": r"[_'\"]auth(?!0)|(?<=author)ization",
}
SUFFIX: Final = (
    r"(?:[_-]?(?:key|value|base|base64|b64|hash|confirm|confirmation|prod|dev|test|staging|live|old|new|[0-9]{1,3}))"
    r"{0,2}(?-i:S)?"
)
# <name>element</name>, --name argument, name = "quoted", name: bare; also name: str = "quoted", name ... value: bare.
_VALUE: Final = (
    rf"(?:>(?P<element>[^\s<>]{{4,256}})</| (?P<argument>(?!-)(?={BARE}{{0,99}}?[0-9]){BARE}{{6,{LONGEST}}})"
    rf"|(?:{_QUOTE}\]?)?"
    r"(?P<is>(?:[ \t]?:[ \t]?[\w&\[\]|. ]{1,24}(?==))?[ \t]{0,4}(?:=>|:=|[:=])(?![=>~])[ \t]{0,4}"
    r"|,?\s{1,40}['\"]?value['\"]?:[ \t]?)(?:[bru@]{1,2}(?=['\"]))?"
    rf"(?:(?P<q>{_QUOTE})(?P<quoted>[^'\"`\\\r\n]*(?:(?!(?P=q))(?:\\.|[^\\\r\n])[^'\"`\\\r\n]*)*)"
    rf"|(?P<bare>{BARE}{{1,{LONGEST}}})))"
)


def _token(name: str, expression: str, *hints: str) -> Pattern:
    return Pattern(name, _START + expression, hints)


def _assigned(name: str, *hints: str) -> Pattern:
    both_cases = dict.fromkeys((*hints, *map(str.upper, hints)))
    return Pattern(name, rf"(?i:(?:{ENDINGS[name]}){SUFFIX}{_VALUE})", tuple(both_cases))


# Where two of them find the same secret, the first one names it.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _token("anthropic key", r"sk-ant-[\w-]{20,}", "sk-ant-"),
    _token("langfuse secret key", r"sk-lf-[\w-]{20,}", "sk-lf-"),
    _token(
        "openai key",
        r"sk-(?:(?:proj|svcacct|admin|or-v1)-[\w-]{20,}|[A-Za-z0-9]{32,}[\w-]*"
        r"|(?=[\w-]{0,99}?[0-9])(?=[\w-]{0,99}?[A-Z])[\w-]{20,})",
        "sk-",
    ),
    _token("groq key", r"gsk_[A-Za-z0-9]{40,}[\w-]*", "gsk_"),
    _token(
        "github token",
        r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})[\w-]*",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _token("gitlab token", r"glpat-[\w-]{20,}(?:\.[\w-]{2,}){0,3}", "glpat-"),
    _token("slack token", r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-(?=[\w-]{0,40}?[0-9])[\w-]{10,}", "xox", "xapp-"),
    Pattern("slack webhook", r"(?<=hooks\.slac)k\.com/(?P<secret>[a-z]{1,20}/[\w/-]{20,})", ("k.com/",)),
    _token("aws access key id", r"(?:AKIA|ASIA)[A-Z0-9]{16}[\w-]*", "AKIA", "ASIA"),
    Pattern(
        "aws secret key",
        r"(?i:(?<=ecret_acces)s_key|(?<=ecretacce)sskey)" + _IS + r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        ("s_key", "S_KEY", "ssKey"),
    ),
    _token("google api key", r"AIza[\w-]{30,}", "AIza"),
    _token(
        "google oauth secret",
        r"(?:GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}|1//0[\w-]{30,})",
        *("GOCSPX-", "ya29.", "1//0"),
    ),
    Pattern("azure key", r"(?:(?<=ccount)|(?<=ccess))Key=(?P<secret>[A-Za-z0-9+/%]{40,}={0,2})", ("Key=",)),
    _token(
        "stripe key",
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{16,})[\w=-]*",
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
    ),
    _token("npm token", r"npm_[A-Za-z0-9]{30,}[\w-]*", "npm_"),
    _token("pypi token", r"pypi-AgE[\w-]{30,}", "pypi-AgE"),
    _token("hugging face token", r"hf_[A-Za-z0-9]{30,}[\w-]*", "hf_"),
    _token("twilio key", r"SK[0-9a-f]{32}(?![0-9A-Za-z])[\w-]*", *(f"SK{digit}" for digit in "0123456789abcdef")),
    _token("sendgrid key", r"SG\.[\w-]{16,40}\.[\w-]{16,}", "SG."),
    _token("digitalocean token", r"do[opr]_v1_\w{40,}[\w-]*", "dop_v1_", "doo_v1_", "dor_v1_"),
    _token("databricks token", r"dapi[0-9a-f]{32}[\w-]*", "dapi"),
    _token("vault token", r"hv[sbr]\.[\w-]{20,}", "hvs.", "hvb.", "hvr."),
    Pattern(
        "telegram token",
        r"(?<=[0-9]{7})[0-9]:(?P<secret>AA[\w-]{30,})",
        tuple(f"{digit}:AA" for digit in "0123456789"),
    ),
    _token("jwt", r"(?<![-_])eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*){0,3}", "eyJ"),
    # To its end or, where the text was cut, as far as there are lines of base64.
    Pattern(
        "private key",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?=(?:(?!-----)[\s\S]){0,300}?[A-Za-z0-9+/]{16})[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{1,60}-----"
        r"|(?:\s{0,8}[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,100}){0,4}"
        r"(?:(?:\s|\\[nrt]|[+>|'\",0-9\u2192-]){0,64}[A-Za-z0-9+/=]{16,})+(?:\s{1,8}[A-Za-z0-9+/=]{1,15}\Z)?)",
        ("-----BEGIN",),
    ),
    Pattern(
        "url password",
        r"[a-z]://[^\s/:@'\"`<>\\]{0,100}:(?P<value>[^\s/'\"`<>\\]{1,256})@(?!sha256:)[\w\[.%-]",
        tuple(f"{letter}://" for letter in "abcehlmnopqrstvx"),
    ),
    Pattern(
        "authorization header",
        rf"(?i:(?<=author)ization{_IS}(?:bearer|basic|token|bot))\s{{1,4}}(?P<value>[\w.~+/=:-]{{8,}})",
        ("ization", "IZATION"),
    ),
    Pattern(
        "bearer token",
        r"(?i:(?<=b)earer)\s{1,4}(?P<value>(?=[\w.~+/=-]{0,99}?[0-9])[\w.~+/=-]{16,})",
        ("earer", "EARER"),
    ),
    Pattern(
        "api key header",
        rf"(?i:-api-key){_IS}(?P<value>{BARE}{{8,{LONGEST}}})",
        ("-api-key", "-Api-Key", "-API-Key", "-API-KEY"),
    ),
    Pattern(
        "cookie",
        rf"(?i:(?<=co)okie){_IS}(?P<secret>[\w.-]{{1,64}}=(?![$<{{%*(\[])[^\s;,'\"`\\]{{4,}}(?:;[^\r\n'\"`\\]*)?)",
        ("okie", "OKIE"),
    ),
    _assigned(
        "password", "sword", "sswd", "phrase", "_pass", "-pass", "'pass", '"pass', "_pwd", "-pwd", "pwd=", "Pwd="
    ),
    _assigned("secret", "ecret"),
    _assigned("token", "oken"),
    _assigned("key", "_key", "-key", "apikey", "key:", "Key"),
    _assigned("credentials", "_cred", "'cred", '"cred'),
    _assigned("auth", "_auth", "'auth", '"auth', "ization"),
)


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


# Start, end, and the place of its pattern in `PATTERNS`.
Span: TypeAlias = tuple[int, int, int]

# What to try where a unit stands: how far before it hints begin, which hints, and the places of their patterns. A plain
# tuple, because it is looked at a thousand times for one secret.
_Try: TypeAlias = tuple[int, tuple[str, ...], tuple[int, ...]]

# The commonest characters: a hint is better looked for elsewhere.
_COMMON: Final = "etaoinsrlcdpmuhgf-/."


def secrets(text: str) -> list[Span]:
    """Give where secrets stand, in no order; they may overlap."""
    units, tries = _scan()
    found: list[Span] = []
    done: dict[int, int] = {}
    for hit in units.finditer(_pairs(text)):
        at = 2 * hit.start()
        for before, hints, ranks in tries[hit[0]]:
            start = at - before
            if text.startswith(hints, start):
                for rank in ranks:
                    # What a pattern has found it is not asked for again: else a run of hints took time in its square.
                    if start >= done.get(rank, 0) and (secret := _tried(rank, text, start)):
                        done[rank] = secret[1]
                        found.append((*secret, rank))
    return found


def _tried(rank: int, text: str, start: int) -> tuple[int, int] | None:
    pattern = PATTERNS[rank]
    found = compiled(pattern.expression).match(text, start)
    secret = _secret(pattern.name, found) if found else None
    if secret and secret[1] - secret[0] == LONGEST and (rest := compiled(f"{BARE}+").match(text, secret[1])):
        return secret[0], rest.end()
    return secret


def _secret(name: str, found: re.Match[str]) -> tuple[int, int] | None:
    match found.lastgroup:
        case None | "secret":
            return found.span(found.lastgroup or 0)
        case "value":
            return found.span("value") if may_be_secret(name, found["value"], "data") else None
        case _:
            return assigned_secret(name, found)


def _pairs(text: str) -> str:
    """Put every two characters into one, so that the scan looks for pairs: these are rarer, and half as many."""
    # Not `decode("utf-16-be")`: looking up that name takes as long as all the rest does with a short text.
    return utf_16_be_decode((text if len(text) % 2 == 0 else text + " ").encode("ascii", "replace"))[0]


def _unit(pair: str) -> str:
    """Give the character that a pair becomes, or the range of those that one known character can begin."""
    first = ord(pair[0]) << 8
    return chr(first | ord(pair[1])) if len(pair) > 1 else f"{chr(first)}-{chr(first | 255)}"


def _rarest(hint: str) -> int:
    return max(
        range(max(1, len(hint) - 3)), key=lambda at: sum(character not in _COMMON for character in hint[at : at + 3])
    )


@cache
def _scan() -> tuple[re.Pattern[str], Mapping[str, Sequence[_Try]]]:
    """Give the expression that finds units of hints in `_pairs`, and what to try where one stands.

    A hint may begin at an even or at an odd place: it is looked for by its rarest pair, and by the pair one further.
    A unit counts if one follows that follows in a hint, as far as the hint goes: by both characters, by one, by none.
    """
    places: dict[tuple[str, int], dict[str, set[int]]] = {}
    units: dict[tuple[int, int], set[str]] = {}
    follow: dict[tuple[int, int], set[str]] = {}
    for rank, pattern in enumerate(PATTERNS):
        for hint in pattern.hints:
            for odd in (0, 1):
                at = _rarest(hint) + odd
                unit, more = _unit(hint[at : at + 2]), hint[at + 2 : at + 4]
                places.setdefault((unit, at), {}).setdefault(hint, set()).add(rank)
                kind = len(more), odd * len(more) // 2
                units.setdefault(kind, set()).add(unit)
                follow.setdefault(kind, set()).update([_unit(more)] if more else [])
    tries: dict[str, list[_Try]] = {}
    for (unit, at), hints in places.items():
        tries.setdefault(unit, []).append((at, tuple(hints), tuple(sorted(set().union(*hints.values())))))
    counts = (
        f"(?<=[{''.join(units[kind])}])" + (f"(?=[{''.join(then)}])" if then else "") for kind, then in follow.items()
    )
    return re.compile(f"[{''.join(tries)}](?:{'|'.join(counts)})"), tries


_OWN: Final = len(PATTERNS)
_NAMES: Final = (*(pattern.name for pattern in PATTERNS), "own pattern")
_MARKER: Final = r"\[masked: [a-z0-9 ]{1,40}\]"
# No token is shorter than that, and a name with its value has a character that no identifier has.
_SHORT: Final = 20
_SHORTEST_TEXT: Final = 7
_MAX_KEYS: Final = 4096

_Key: TypeAlias = str | int
_Box: TypeAlias = "dict[str, JsonValue] | list[JsonValue]"


class Redactor:
    """Masks secrets and counts under each name what it has masked.

    `own` are further expressions, a user's. Of one with a group `secret` that group is masked, else all it matches.
    """

    def __init__(self, own: Sequence[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._own = tuple(map(_own_expression, own))
        self._clean_keys: set[str] = set()

    def text(self, text: str) -> str:
        """Return the text without secrets; the same object if it has none. What is masked stays as it is."""
        # A secret masked can show the beginning of another one, so it goes on until nothing is found; each time less
        # of the text is left that is no marker.
        while spans := self._spans(text):
            parts: list[str] = []
            at = 0
            for start, end, rank in spans:
                parts += (text[at:start], _marker(_NAMES[rank]))
                at = end
            self.counts.update(_NAMES[rank] for _, _, rank in spans)
            text = "".join([*parts, text[at:]])
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """Return the value without secrets in its texts and keys; the same object, or parts of it, if there are none.

        A text whose key says secret is one, unless it is evidently something else. Any depth is walked.
        """
        boxes: list[tuple[_Box, str, int, _Key]] = [([value], "", 0, 0)]
        changes: list[dict[_Key, JsonValue]] = []
        for number, (box, called, _, _) in enumerate(boxes):
            changed: dict[_Key, JsonValue] = {}
            for key, item in box.items() if isinstance(box, dict) else enumerate(box):
                # What a list holds is called as the list is.
                name = key if isinstance(key, str) else called
                if isinstance(item, str):
                    if (masked := self._named(_beside(box) if name == "value" else name, item)) is not item:
                        changed[key] = masked
                elif isinstance(item, (dict, list)):
                    boxes.append((item, name, number, key))
            changes.append(changed)
        for number in range(len(boxes) - 1, 0, -1):
            box, _, parent, key = boxes[number]
            if (made := self._made(box, changes[number])) is not box:
                changes[parent][key] = made
        return changes[0].get(0, value)

    def _spans(self, text: str) -> list[Span]:
        short = len(text) < _SHORTEST_TEXT or (len(text) < _SHORT and text.isidentifier())
        found = [] if short else secrets(text)
        for expression in self._own:
            group = "secret" if "secret" in expression.groupindex else 0
            found += [(*match.span(group), _OWN) for match in expression.finditer(text) if match[group]]
        return _united(found, text) if found else []

    def _named(self, name: str, text: str) -> str:
        """Return a text without secrets, or masked as a whole if its name says secret and it may be one."""
        kind = kind_of(name)
        if kind in HEADERS and (masked := self.text(HEADERS[kind] + text)).startswith(HEADERS[kind]):
            masked = masked.removeprefix(HEADERS[kind])
            return text if masked == text else masked
        masked = self.text(text)
        if kind is None or not may_be_secret(kind, text, "quoted") or compiled(_MARKER).fullmatch(masked):
            return masked
        self.counts[kind] += 1
        return _marker(kind)

    def _made(self, box: _Box, changed: dict[_Key, JsonValue]) -> _Box:
        """Return the box with what changed in it and with its keys masked, or itself if that is nothing."""
        if isinstance(box, list):
            return [changed.get(at, item) for at, item in enumerate(box)] if changed else box
        if not changed and all(map(self._is_clean, box)):
            return box
        made: dict[str, JsonValue] = {}
        for key, item in box.items():
            masked = key if self._is_clean(key) else self.text(key)
            while masked in made:  # two secrets, one marker: neither entry is lost
                masked += "*"
            made[masked] = changed.get(key, item)
        return made

    def _is_clean(self, key: str) -> bool:
        """Tell whether a key has no secret. The same few keys come again and again, so those are remembered."""
        if key in self._clean_keys:
            return True
        if self._spans(key):
            return False
        if len(self._clean_keys) < _MAX_KEYS:
            self._clean_keys.add(key)
        return True


def _own_expression(expression: str) -> re.Pattern[str]:
    try:
        made = re.compile(expression)
    except re.error as error:
        message = f"{expression!r} is no regular expression: {error}; correct it in the patterns to mask"
        raise ConfigError(message) from error
    if made.search(""):
        message = f"{expression!r} matches empty text, so it would mask nothing; correct it in the patterns to mask"
        raise ConfigError(message)
    return made


def _beside(box: _Box) -> str:
    """Give what stands beside a `value` as its `name`: so are variables and headers written as objects."""
    name = box.get("name") if isinstance(box, dict) else None
    return name if isinstance(name, str) else "value"


def _marker(name: str) -> str:
    return f"[masked: {name}]"


def _united(found: Iterable[Span], text: str) -> list[Span]:
    """Unite what overlaps, under the name that comes first; what is masked already stays."""
    markers = ((*marker.span(), len(_NAMES)) for marker in compiled(_MARKER).finditer(text))
    united: list[Span] = []
    for start, end, rank in sorted([*found, *markers]):
        if united and start < united[-1][1]:
            before = united[-1]
            united[-1] = (before[0], max(end, before[1]), min(rank, before[2]))
        else:
            united.append((start, end, rank))
    return [span for span in united if not compiled(_MARKER).fullmatch(text, span[0], span[1])]
