"""The patterns of secrets, by name.

Rule: expressions are bounded. Every run of characters but the last has a limit, so that trying an expression takes no
longer than reading the text it matches.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cc_trace.privacy.services import SERVICE_HINTS
from cc_trace.privacy.token_facts import TOKEN_FACTS, TokenFact, front_run, hints, token_expression


class Pattern(NamedTuple):
    """One kind of secret.

    The expression is tried wherever one of the hints occurs in the text, from the hint's first character on; hints are
    ASCII. The group `secret` is masked; or the group that matched last, if its text may be a secret (see `scan`); or,
    in an expression without groups, the whole match. Characters before the hint can belong to the secret: `front` says
    which, with the minimum and maximum number. With `at_start` the expression is also tried at the start of a text
    that begins so.
    """

    name: str
    expression: str
    hints: tuple[str, ...]
    front: tuple[str, int, int] | None = None
    at_start: str = ""


# A token starts after anything but a letter or digit, except that escape and colour sequences end in one.
_START: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[[0-9]m)|(?<=[\[;][0-9]{2}m))"
)
_QUOTE: Final = r"\\{0,7}['\"`]"
BARE: Final = r"[^\s'\"`\\\x1b]"
# How much of a bare value an expression matches. The rest of a secret is masked as well.
LONGEST: Final = 256
# Between a name and its value, with optional quotes around either.
_IS: Final = rf"(?:{_QUOTE}\]?)?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?"

# Endings of the names of secrets. Only some keys are secret, see `assignments.may_name_key`.
ENDINGS: Final = {
    "password": r"(?<=pas)sword|(?<=[^/]pas)swd|(?<=pass)phrase|[_\-'\"]pass|[_-]?pwd",
    "secret": r"(?<=s)ecret",
    "token": r"(?<=t)(?<!next_t)(?<!nextt)(?<!page_t)(?<!paget)(?<!publickeyt)(?<!pected t)oken",
    "key": r"(?:[_-]|api)?key",
    "credentials": r"[_'\"]credentials?",
    "auth": r"[_'\"]auth(?!0)|(?<=author)ization",
}
SUFFIX: Final = (
    r"(?:[_-]?(?:key|value|base|base64|b64|hash|confirm|confirmation|prod|dev|test|staging|live|old|new|[0-9]{1,3}))"
    r"{0,2}(?-i:S)?"
)
# Assignment operators: those of Ruby and PHP, Go and make, appending, and setting a default.
_ASSIGN: Final = r"(?:=>|:{1,3}=|(?:\?{1,2}|\|\||[+.])=|[:=])"
# A YAML block text, which begins on the next line.
_BLOCK: Final = r"(?:[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,40})?"
# The value of an XML element, or of the next one, as in a property list.
_ELEMENT: Final = r"(?:</\w{1,12})?>\s{0,40}(?:(?<=>)|(?<=\s))(?:<\w{1,12}>\s{0,40})?"
# A type annotation between a variable's name and a quoted text.
_TYPE: Final = rf"[ \t]?:[ \t]?[\w&\[\]|. ]{{1,24}}(?==[ \t]{{0,4}}[bru@]{{0,2}}{_QUOTE})"
# What follows the name of a secret, including the value. How the value is written decides what it may be, so each
# notation has its own group; `assignments` judges the last group that matched:
#
#   element    <password>value</password>, <key>password</key><string>value</string>
#   quoted     password = "value", "password": "value", password: str = "value", password string = "value"
#   bare       PASSWORD=value, password: value
#   option     --password "value", "--password", "value", set("password", "value")
#   argument   --password value
#   listed     password,value
#
# The group `is` before `quoted` and `bare` distinguishes data from code: PASSWORD=value or password: value.
_IN_ELEMENT: Final = rf"{_ELEMENT}(?P<element>[^\s<>](?:[^<>]{{2,254}}[^\s<>]))\s{{0,40}}</"
# An assignment; or an object of name and value: {name: password, value: "..."}, name="password" value="...".
_IS_ASSIGNED: Final = (
    rf"(?P<is>(?:{_TYPE}|[ \t](?:string|String|\[\]byte|\*string)(?=[ \t]{{0,4}}=))?"
    rf"[ \t]{{0,4}}{_ASSIGN}(?![=>~])[ \t]{{0,4}}{_BLOCK}"
    rf"|(?:,?\s{{1,40}}|,)(?:{_QUOTE})?value(?:{_QUOTE})?[ \t]?:[ \t]?|(?<=['\"]),?\s{{1,40}}value[ \t]{{0,9}}=[ \t]?)"
)
# Up to a quote with as many backslashes as the first one. Other quotes may occur in between.
_IN_QUOTES: Final = rf"(?P<q>{_QUOTE})(?P<quoted>[^'\"`\\\r\n]*(?:(?!(?P=q))(?:\\.|[^\\\r\n])[^'\"`\\\r\n]*)*)"
# The quote that ends the name; the value, after the prefix of a string literal.
_ASSIGNED: Final = (
    rf"(?:{_QUOTE}\]?)?{_IS_ASSIGNED}(?:[bru@]{{1,2}}(?=['\"]))?(?:{_IN_QUOTES}|(?P<bare>{BARE}{{1,{LONGEST}}}))"
)
_OPTION: Final = rf"(?: |{_QUOTE},\s{{0,40}})(?P<o>{_QUOTE})(?P<option>[\w!@#%^*~][^'\"`\\\r\n]{{0,{LONGEST}}})(?P=o)"
# In prose, text also follows a name; so an argument must have a character that words do not have.
_ARGUMENT: Final = rf" (?P<argument>(?!-)(?={BARE}{{0,99}}?[0-9A-Z!@#%^*+~]){BARE}{{4,{LONGEST}}})"
_LISTED: Final = rf",(?P<listed>[\w.+/=~-]{{12,{LONGEST}}})"
# Each begins with one of a few characters. Most names are followed by another one, which ends the attempt at once.
_VALUE: Final = rf"(?=[<>=:?|+.,\s\\'\"`])(?:{_IN_ELEMENT}|{_ASSIGNED}|{_OPTION}|{_ARGUMENT}|{_LISTED})"
# Between the name of a service and its secret.
_SERVICE: Final = (
    rf"[\w \t.-]{{0,24}}+(?:{_ELEMENT}|(?:{_QUOTE}\]?)?(?:{_TYPE}|[ \t]value(?==))?"
    rf"\s{{0,3}}(?:{_ASSIGN}|\|\||[>,(])\s{{0,4}}{_BLOCK}(?:{_QUOTE})?)"
)


# curl's options without a value, which can be combined with `-u`.
_CURL_FLAGS: Final = (*"sSfkivLgGI", "sS", "fs", "sk", "ks", "si", "sv", "sL", "sf", "fsS", "sSf", "sSL", "fsSL")
# Within a private key: "... [5 lines truncated] ...", and grep's prefix of a line.
_LEFT_OUT: Final = r"(?:(?:\.{3}|\u2026|\[)[^\n]{0,60}\n\s{0,8})?"
_GREPPED: Final = r"(?:[\w./~-]{1,100}[:-][0-9]{1,6}[:-])?"
# A list of cookies. The first ones may be short.
_COOKIES: Final = (
    r"(?:[\w.-]{1,64}=[^\s;,'\"`\\]{0,3}; ?){0,9}[\w.-]{1,64}=(?![$<{%*(\[])[^\s;,'\"`\\]{4,}(?:;[^\r\n'\"`\\]*)?"
)


def _token(name: str, expression: str, *hints: str) -> Pattern:
    return Pattern(name, _START + expression, hints)


def _assigned(name: str, *hints: str) -> Pattern:
    both_cases = dict.fromkeys((*hints, *map(str.upper, hints)))
    return Pattern(name, rf"(?i:(?:{ENDINGS[name]}){SUFFIX}{_VALUE})", tuple(both_cases))


def _from_fact(fact: TokenFact) -> Pattern:
    start = "" if fact.front else _START
    return Pattern(fact.name, start + token_expression(fact), hints(fact), front_run(fact))


# If two patterns find the same secret, the first one names it.
PATTERNS: Final[tuple[Pattern, ...]] = (
    *map(_from_fact, TOKEN_FACTS),
    # Others use the same form.
    _token("openai key", r"sk-(?=[\w-]{0,99}?[0-9][A-Za-z])(?=[\w-]{0,99}?[A-Z])[\w-]{20,}", "sk-"),
    _token(
        "slack token",
        r"(?:xox(?:[a-np-z]|o(?=-[0-9]{1,64}-))(?:\.xox[a-z])?|xapp)-(?=[\w-]{0,40}?[0-9])[\w-]{8,}",
        *("xox", "xapp-"),
    ),
    Pattern("slack webhook", r"(?<=hooks\.slac)k\.com/(?P<secret>[a-z]{1,20}/[\w/+-]{20,})", ("k.com/",)),
    Pattern("discord webhook", r"(?<=/api/)webhooks/[0-9]{15,20}/(?P<secret>[\w-]{50,})", ("webhooks/",)),
    Pattern(
        "aws secret key",
        rf"(?:(?i:(?<=ecret_acces)s_key|(?<=ecretacce)sskey)(?:{_IS}|[ \t|]{{1,40}})"
        # The text output of `aws sts`: key id, expiration, secret key, session token.
        r"|A[KS]IA[A-Z0-9]{16}\s{1,4}(?:[0-9T:+Z.-]{20,32}\s{1,4})?)"
        r"(?P<secret>[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])(?:\s{1,4}[A-Za-z0-9/+=]{100,})?)",
        ("s_key", "S_KEY", "ssKey", "AKIA", "ASIA"),
    ),
    # In a shared access URL. `se` is optional: URLs of logic apps have none.
    Pattern(
        "azure signature",
        r"(?:(?<=[&?;]s)|(?<=\\u0026s))ig=(?P<secret>(?=[A-Za-z]{0,99}[0-9%+/])[\w%+/=-]{40,})",
        ("ig=",),
    ),
    # In a signed URL, and in a request's header.
    Pattern("request signature", r"(?<=[^A-Za-z])Signature=(?P<secret>[0-9a-f]{64,})", ("Signature=",)),
    Pattern("azure key", r"(?:(?<=ccount)|(?<=ccess))Key=(?P<secret>[A-Za-z0-9+/%]{40,}={0,2})", ("Key=",)),
    Pattern(
        "teams webhook",
        r"/(?:webhookb2|webhook)/(?P<secret>(?=[\w@-]{0,99}[0-9])[\w@-]{36,}(?:/[\w@-]+){1,4})",
        ("/webhookb2/", "/webhook/"),
    ),
    # A user id's digits in base64, a time, a signature.
    _token(
        "discord token",
        r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
        *(first + second + third for first in "MNO" for second in "TDjz" for third in "AEIMQUYcgk"),
    ),
    # Vault's older form. The prefix alone is too common.
    Pattern(
        "vault token",
        r"(?:[\s'\"`=:]|\\n|\A)(?P<secret>s\.(?=[A-Za-z]{0,23}[0-9])[A-Za-z0-9]{24}(?![\w-]))",
        tuple(f"{border}s." for border in (*" \t\n'\"`=:", "\\n")),
        at_start="s.",
    ),
    Pattern("notion token", r"(?<=s)ecret_(?P<secret>(?=[A-Za-z]{0,42}[0-9])[A-Za-z0-9]{43}(?![\w-]))", ("ecret_",)),
    Pattern(
        "fly token",
        rf"(?:{_START}fo1_|FlyV1 fm[0-9][a-z]?_)(?P<secret>[\w+/=,-]{{40,}})",
        ("fo1_", "FlyV1 fm"),
    ),
    Pattern(
        "telegram token",
        r"(?<=[0-9]{7})[0-9]:(?P<secret>AA[\w-]{30,})",
        tuple(f"{digit}:AA" for digit in "0123456789"),
    ),
    _token("jwt", r"(?<![-_])eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*){0,3}", "eyJ"),
    # What Kubernetes stores in base64: a key, or registry logins.
    _token(
        "encoded credentials",
        r"(?:LS0tLS1CRUdJTiB(?:\w{5}UFJJVkFU|(?:FQyB)?QUklWQVRF|PUEVOU1NI|FTkNSWVBU)"
        r"|eyJhdXRocyI6|ewoJImF1dGhz|ewogICJhdXRocyI6|ewogICAgImF1dGhz)[A-Za-z0-9+/]{8,}={0,2}",
        *("LS0tLS1CRUdJTiB", "eyJhdXRocyI6", "ewoJImF1dGhz", "ewogIC"),
    ),
    # Up to its end or, if the text was cut, as long as there are lines of base64; also before an end with no beginning.
    Pattern(
        "private key",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?=(?:(?!-----)[\s\S]){0,300}?[A-Za-z0-9+/]{16})[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{1,60}-----"
        r"|(?:\s{0,8}[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,100}){0,4}"
        rf"(?:(?:\s|\\[nrt]|[+>|'\",0-9\u2192-]){{0,64}}{_LEFT_OUT}{_GREPPED}[A-Za-z0-9+/=]{{16,}})+"
        r"(?:\s{1,8}[A-Za-z0-9+/=]{1,15}\Z)?)"
        r"|-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?(?P<tail>-----)",
        ("-----BEGIN", "-----END"),
    ),
    Pattern(
        "url password",
        r"(?<=[A-Za-z0-9])://(?:(?P<secret>[0-9a-f]{8}:[0-9a-f]{8}(?=@(?:gems|enterprise)\.contribsys\.com)"
        r"|[^\s/:@'\"`<>\\]{8,256}(?=:x-oauth-basic@)"
        r"|(?=(?:[\w.~+-]{0,99}?[0-9][A-Za-z]){2})[\w.~+-]{16,256}(?=:x?@))(?::(?:x-oauth-basic|x)?)?"
        r"|[^\s/:@'\"`<>\\]{0,100}:(?:(?P<url>[^\s/'\"`<>\\]{1,256})"
        r"|(?P<slashed>(?!(?:[0-9]{0,5}|[A-Z_]{1,20}|(?i:port))[/?#])[^\s@'\"`<>\\]{1,128}))"
        r"|(?<=(?i:http|ttps)://)(?P<userinfo>[\w.~%+-]{20,256}))@(?!sha256:)[\w\[.%-]",
        ("://",),
    ),
    Pattern(
        "authorization header",
        rf"(?i:(?<=author)ization{_IS}(?:bearer|basic|token|bot|(?:api|genie)?key|splunk|ssws))\s{{1,4}}(?P<value>[\w.~+/=:-]{{8,}})",
        ("ization", "IZATION"),
    ),
    Pattern(
        "bearer token",
        r"(?i:bearer)\s{1,4}(?P<value>(?=[\w.~+/=-]{0,99}?[0-9])[\w.~+/=-]{16,})",
        ("Bearer", "bearer", "BEARER"),
    ),
    _token("basic login", r"(?i:basic)\s{1,4}(?P<basic>[A-Za-z0-9+/]{6,}={0,2})", "Basic ", "basic ", "BASIC "),
    # curl -u name:password, docker login -p password, mysql -ppassword
    Pattern(
        "command line password",
        rf" (?:-[A-Za-z]{{0,6}}[uU] ?|-a |--(?:proxy-)?user[ =])(?:{_QUOTE})?[^\s:'\"`\\]{{1,64}}"
        rf":(?P<curl>{BARE}{{1,{LONGEST}}})"
        rf"|(?: -p|(?<=--pas)sword)[ =](?:{_QUOTE})?(?P<login>(?!-){BARE}{{1,{LONGEST}}})"
        rf"| -p(?:{_QUOTE})?(?P<joined>(?![-=]|[0-9.:]{{1,30}}:[0-9]){BARE}{{1,{LONGEST}}})",
        (" -u", " -U", " -a", " --user", " --proxy-user", " -p", "sword", *(f" -{flags}u" for flags in _CURL_FLAGS)),
    ),
    Pattern(
        "netrc password",
        rf"(?<=\spas)sword[ \t]{{1,8}}(?P<netrc>{BARE}{{1,{LONGEST}}})",
        ("sword",),
    ),
    Pattern(
        "api key header",
        rf"(?i:-api-key){_IS}(?P<value>{BARE}{{8,{LONGEST}}})",
        ("-api-key", "-Api-Key", "-API-Key", "-API-KEY"),
    ),
    Pattern(
        "cookie",
        rf"(?i:(?<=co)okie){_IS}(?P<secret>{_COOKIES})"
        rf"|(?: -b|(?<=--co)okie) (?:{_QUOTE})?(?P<jar>{_COOKIES})",
        ("okie", "OKIE", " -b"),
    ),
    Pattern(
        "sql password",
        r"(?:ASSWORD|with password|(?<=IDENTIF)IED BY|(?<=['%`\"] identif)ied by) '(?P<value>[^'\\\r\n]{1,256})'",
        ("ASSWORD '", "with password '", "IED BY '", "ied by '"),
    ),
    _assigned("password", "sword", "swd", "phrase", "_pass", "-pass", "'pass", '"pass', "_pwd", "-pwd", "pwd=", "Pwd="),
    _assigned("secret", "ecret"),
    _assigned("token", "oken"),
    _assigned("key", "_key", "-key", "apikey", "key:", "Key"),
    _assigned("credentials", "_cred", "'cred", '"cred'),
    _assigned("auth", "_auth", "'auth", '"auth', "ization"),
    # Last: if an assignment identifies the secret, that gives a better name.
    Pattern(
        "service secret",
        rf"{_SERVICE}(?P<service>[\w.=:%+/~-]{{8,{LONGEST}}})",
        SERVICE_HINTS,
    ),
)
