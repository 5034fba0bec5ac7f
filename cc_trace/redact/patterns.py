"""What secrets look like, each kind under its name.

The rule here: an expression is bounded. It ends with a run of characters or has a limit on every run before its end,
so that trying it costs no more than the text it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret.

    The expression is tried wherever one of the hints stands in the text, from the hint's first character on; a hint
    has at least three characters, all of them ASCII. What is masked is the group `secret`; or the group that matched
    last, if what it holds may be a secret, see `scan`; or, in an expression without groups, the whole match.
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
# <name>element</name>, name = "quoted", name: bare, --name "option", "--name", "option", --name argument; also
# name: str = "quoted" and name ... value: bare.
_VALUE: Final = (
    rf"(?:>(?P<element>[^\s<>]{{4,256}})</|(?:{_QUOTE}\]?)?"
    r"(?P<is>(?:[ \t]?:[ \t]?[\w&\[\]|. ]{1,24}(?==))?[ \t]{0,4}(?:=>|:=|[:=])(?![=>~])[ \t]{0,4}"
    rf"|(?:,?\s{{1,40}}|,)(?:{_QUOTE})?value(?:{_QUOTE})?[ \t]?:[ \t]?|(?<=['\"]),?\s{{1,40}}value[ \t]{{0,9}}=[ \t]?)"
    r"(?:[bru@]{1,2}(?=['\"]))?"
    rf"(?:(?P<q>{_QUOTE})(?P<quoted>[^'\"`\\\r\n]*(?:(?!(?P=q))(?:\\.|[^\\\r\n])[^'\"`\\\r\n]*)*)"
    rf"|(?P<bare>{BARE}{{1,{LONGEST}}}))"
    rf"|(?: |{_QUOTE},\s{{0,40}})(?P<o>{_QUOTE})(?P<option>[\w!@#%^*~][^'\"`\\\r\n]{{0,{LONGEST}}})(?P=o)"
    rf"| (?P<argument>(?!-)(?={BARE}{{0,99}}?[0-9A-Z!@#%^*+~]){BARE}{{4,{LONGEST}}}))"
)


# Options of curl without a value, as they are written in one with `-u`.
_CURL_FLAGS: Final = (*"sSfkivLgGI", "sS", "fs", "sk", "ks", "si", "sv", "sL", "sf", "fsS", "sSf", "sSL", "fsSL")
# Within a private key: "... [5 lines truncated] ...", and what grep puts before a line.
_LEFT_OUT: Final = r"(?:(?:\.{3}|\u2026|\[)[^\n]{0,60}\n\s{0,8})?"
_GREPPED: Final = r"(?:[\w./~-]{1,100}[:-][0-9]{1,6}[:-])?"
# One cookie after the other; the first ones may be short.
_COOKIES: Final = (
    r"(?:[\w.-]{1,64}=[^\s;,'\"`\\]{0,3}; ?){0,9}[\w.-]{1,64}=(?![$<{%*(\[])[^\s;,'\"`\\]{4,}(?:;[^\r\n'\"`\\]*)?"
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
        r"|(?=[\w-]{0,99}?[0-9][A-Za-z])(?=[\w-]{0,99}?[A-Z])[\w-]{20,})",
        "sk-",
    ),
    _token("groq key", r"gsk_[A-Za-z0-9]{40,}[\w-]*", "gsk_"),
    _token(
        "github token",
        r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})[\w-]*",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    _token(
        "gitlab token",
        r"(?:gl[a-z]{1,6}-|GR1348941)[\w-]{20,}(?:\.[\w-]{2,}){0,3}",
        *("glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "glwt-"),
        *("glffct-", "gloas-", "GR1348941"),
    ),
    _token(
        "slack token",
        r"(?:xox(?:[a-np-z]|o(?=-[0-9]{1,20}-))(?:\.xox[a-z])?|xapp)-(?=[\w-]{0,40}?[0-9])[\w-]{10,}",
        *("xox", "xapp-"),
    ),
    Pattern("slack webhook", r"(?<=hooks\.slac)k\.com/(?P<secret>[a-z]{1,20}/[\w/-]{20,})", ("k.com/",)),
    Pattern("discord webhook", r"(?<=/api/)webhooks/[0-9]{15,20}/(?P<secret>[\w-]{50,})", ("webhooks/",)),
    _token("aws access key id", r"(?:AKIA|ASIA)[A-Z0-9]{16}[\w-]*", "AKIA", "ASIA"),
    Pattern(
        "aws secret key",
        rf"(?:(?i:(?<=ecret_acces)s_key|(?<=ecretacce)sskey)(?:{_IS}|[ \t|]{{1,40}})"
        # As `aws sts` prints it as text: its id, when it ends, the key, the session's token.
        r"|A[KS]IA[A-Z0-9]{16}\s{1,4}(?:[0-9T:+Z.-]{20,32}\s{1,4})?)"
        r"(?P<secret>[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])(?:\s{1,4}[A-Za-z0-9/+=]{100,})?)",
        ("s_key", "S_KEY", "ssKey", "AKIA", "ASIA"),
    ),
    _token("google api key", r"AIza[\w-]{30,}", "AIza"),
    _token(
        "google oauth secret",
        r"(?:GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}|1//0[\w-]{30,})",
        *("GOCSPX-", "ya29.", "1//0"),
    ),
    # Of a shared access URL; without `se` too: those of logic apps have none.
    Pattern(
        "azure signature",
        r"(?:(?<=[&?;]s)|(?<=\\u0026s))ig=(?P<secret>(?=[A-Za-z]{0,99}[0-9%+/])[\w%+/=-]{40,})",
        ("ig=",),
    ),
    # Of a URL that was signed, and of a request's header.
    Pattern("request signature", r"(?<=[^A-Za-z])Signature=(?P<secret>[0-9a-f]{64,})", ("Signature=",)),
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
    _token("shopify token", r"shp(?:at|ss|ca|pa)_[0-9A-Fa-f]{32}[\w-]*", "shpat_", "shpss_", "shpca_", "shppa_"),
    _token("linear key", r"lin_api_[A-Za-z0-9]{30,}[\w-]*", "lin_api_"),
    # The second is base64 of an object.
    _token("grafana token", r"(?:glsa_\w{24,}|glc_eyJ[\w+/-]{20,}=*)", "glsa_", "glc_eyJ"),
    _token("docker token", r"dckr_[po]at_[\w-]{20,}", "dckr_pat_", "dckr_oat_"),
    _token("sentry token", r"(?:sntrys_eyJ[\w+/=-]{20,}|sntryu_[0-9a-f]{40,})", "sntrys_eyJ", "sntryu_"),
    _token("figma token", r"figd_[\w-]{30,}", "figd_"),
    _token("xai key", r"xai-(?=[A-Za-z]{0,99}?[0-9])[A-Za-z0-9]{40,}[\w-]*", "xai-"),
    _token("perplexity key", r"pplx-[A-Za-z0-9]{32,}[\w-]*", "pplx-"),
    _token("age key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}", "AGE-SECRET-KEY-1"),
    _token("atlassian token", r"(?:AT(?:AT|CT)T3[\w=-]{40,}|ATBB[A-Za-z0-9]{32}[\w=-]*)", "ATATT3", "ATCTT3", "ATBB"),
    Pattern(
        "notion token",
        rf"{_START}ntn_[0-9]{{6,}}[A-Za-z0-9]{{30,}}[\w-]*"
        r"|(?<=s)ecret_(?P<secret>(?=[A-Za-z]{0,42}[0-9])[A-Za-z0-9]{43}(?![\w-]))",
        ("ecret_", *(f"ntn_{digit}" for digit in "0123456789")),
    ),
    _token("supabase token", r"(?:sbp_[0-9a-f]{40}[\w-]*|sb_secret_[\w-]{20,})", "sbp_", "sb_s"),
    _token("replicate token", r"r8_[A-Za-z0-9]{37}[\w-]*", "r8_"),
    _token(
        "doppler token",
        r"dp\.(?:pt|ct|sa|st|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,}",
        *("dp.pt.", "dp.ct.", "dp.sa.", "dp.st.", "dp.scim.", "dp.audit."),
    ),
    Pattern(
        "fly token",
        r"(?:(?<=[^A-Za-z0-9]f)o1_|FlyV1 fm[0-9][a-z]?_)(?P<secret>[\w+/=,-]{40,})",
        ("o1_", "FlyV1 fm"),
    ),
    _token("planetscale token", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}", "pscale_"),
    _token("digitalocean token", r"do[opr]_v1_\w{40,}[\w-]*", "dop_v1_", "doo_v1_", "dor_v1_"),
    _token("databricks token", r"dapi[0-9a-f]{32}[\w-]*", "dapi"),
    _token("vault token", r"hv[sbr]\.[\w-]{20,}", "hvs.", "hvb.", "hvr."),
    Pattern("terraform token", r"(?<=[A-Za-z0-9]{14})\.atlasv1\.[\w-]{40,}", (".atlasv1.",)),
    # Tailscale, New Relic, Postman, LangSmith, Pinecone, Pulumi, RubyGems, Heroku, Dynatrace, Tavily, PostHog.
    _token(
        "service key",
        r"(?:tskey-[a-z]{2,12}-[\w-]{16,}|NRAK-[A-Z0-9]{27}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}"
        r"|lsv2_(?:pt|sk)_[0-9a-f]{32}\w*|pcsk_\w{40,}|pul-[0-9a-f]{40}|rubygems_[0-9a-f]{48}|HRKU-[\w-]{36,}"
        r"|dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}|tvly-(?=[a-z-]{0,20}[A-Z0-9])[\w-]{20,}|phx_[A-Za-z0-9]{40,})[\w-]*",
        *("tskey-", "NRAK-", "PMAK-", "lsv2_pt_", "lsv2_sk_", "pcsk_", "rubygems_", "HRKU-", "dt0c01."),
        *("tvly-", "phx_", *(f"pul-{digit}" for digit in "0123456789abcdef")),
    ),
    Pattern(
        "telegram token",
        r"(?<=[0-9]{7})[0-9]:(?P<secret>AA[\w-]{30,})",
        tuple(f"{digit}:AA" for digit in "0123456789"),
    ),
    _token("jwt", r"(?<![-_])eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*){0,3}", "eyJ"),
    # What Kubernetes keeps in base64: a key, or the logins of registries.
    _token(
        "encoded credentials",
        r"(?:LS0tLS1CRUdJTiB(?:\w{5}UFJJVkFU|(?:FQyB)?QUklWQVRF|PUEVOU1NI|FTkNSWVBU)"
        r"|eyJhdXRocyI6|ewoJImF1dGhz|ewogICJhdXRocyI6|ewogICAgImF1dGhz)[A-Za-z0-9+/]{8,}={0,2}",
        *("LS0tLS1CRUdJTiB", "eyJhdXRocyI6", "ewoJImF1dGhz", "ewogIC"),
    ),
    # To its end or, where the text was cut, as far as there are lines of base64, in front of its end too.
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
        r"(?<=[A-Za-z0-9])://(?:[^\s/:@'\"`<>\\]{0,100}:(?:(?P<url>[^\s/'\"`<>\\]{1,256})"
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
        (" -u", " -U", " -a", " --user", " --proxy-user", " -p", "sword", *(f" -{more}u" for more in _CURL_FLAGS)),
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
)
