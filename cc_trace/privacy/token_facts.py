"""What is publicly known about tokens: prefix, length, alphabet, and the source of each fact.

Rule: facts only, in one notation. `token_expression` makes expressions from them, and `bench/recall.py` compares newer
public rule sets with this table. In a body `<hex 32>` is a run of 32 characters of that alphabet, `<hex 32+>` of at
least 32, `<hex 32..40>` of 32 to 40. Everything else is literal.
"""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where the facts come from. A row with several sources names one. A test compares the prefixes of `GITLEAKS` with its
# rules. The others are not compared: `GITHUB` lists tokens without their forms, `GITLAB` prefixes without lengths, and
# the rows of `TRUFFLEHOG` and `MICROSOFT` were not checked one by one. Lengths are often less than the source's: longer
# tokens are masked, too. `UNCHECKED` rows describe what such tokens commonly look like.
GITLEAKS: Final = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
TRUFFLEHOG: Final = "https://github.com/trufflesecurity/trufflehog/tree/main/pkg/detectors"
GITHUB: Final = "https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns"
GITLAB: Final = "https://docs.gitlab.com/security/tokens/#token-prefixes"
MICROSOFT: Final = "https://github.com/microsoft/security-utilities"
UNCHECKED: Final = "compared with no source"

ALPHABETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "digit": "0-9",
        "hex": "0-9a-f",
        "anyhex": "0-9A-Fa-f",
        "alpha": "A-Za-z",
        "lower": "a-z0-9",
        "upper": "A-Z0-9",
        "alnum": "A-Za-z0-9",
        "base64": "A-Za-z0-9+/",
        "padded": "A-Za-z0-9+/=",
        "word": "A-Za-z0-9_-",
        "word=": "A-Za-z0-9_=-",
        "dotted": "A-Za-z0-9_=.-",
        "tilde": "A-Za-z0-9_~.-",
        "slashed": "A-Za-z0-9_/-",
        "percent": "A-Za-z0-9%",
        "any64": "A-Za-z0-9+/_=-",
    }
)
_UUID: Final = "<anyhex 8>-<anyhex 4>-<anyhex 4>-<anyhex 4>-<anyhex 12>"
_RUN: Final = re.compile(r"<([a-z0-9=]+) ([0-9]+)(?:(\+)|\.\.([0-9]+))?>")
# Shorter prefixes are too common: they are searched for together with the next character.
_SHORTEST_HINT: Final = 3
# A prefix of many words (path, pattern, patch, patient, patent; test_a) is searched for with two, if it continues so.
_WORDS_BEGIN: Final[Mapping[str, str]] = MappingProxyType({"pat": "htcie", "test_": "abcdef"})


class TokenFact(NamedTuple):
    """One form of a token.

    Characters after a token that may belong to it are masked, too, unless `exact`: then none may follow. With `digits`
    a token must have a digit, which distinguishes it from a name with the same prefix. `front` comes before the prefix
    and belongs to the token; it is one run in the same notation.
    """

    name: str
    prefixes: tuple[str, ...]
    body: str
    source: str
    exact: bool = False
    digits: bool = False
    front: str = ""


def token_expression(fact: TokenFact) -> str:
    """Return an expression that matches such a token from its prefix on."""
    prefix = "|".join(map(re.escape, fact.prefixes))
    digits = r"(?=[^0-9\s]{0,99}[0-9])" if fact.digits else ""
    end = r"(?![A-Za-z0-9_+/=-])" if fact.exact else r"[\w-]*={0,3}"
    return f"(?:{prefix}){digits}{runs_expression(fact.body)}{end}"


def front_run(fact: TokenFact) -> tuple[str, int, int] | None:
    """Return the run before the prefix: its characters, minimum and maximum length."""
    run = _RUN.fullmatch(fact.front)
    if run is None:
        return None
    minimum = int(run[2])
    return _characters(ALPHABETS[run[1]]), minimum, int(run[4]) if run[4] else minimum


def hints(fact: TokenFact) -> tuple[str, ...]:
    """Return the texts that such a token can begin with, after its front."""
    run = _RUN.match(fact.body)
    if run is None or fact.front:
        return fact.prefixes
    texts: list[str] = []
    for prefix in fact.prefixes:
        if len(prefix) >= _SHORTEST_HINT and prefix not in _WORDS_BEGIN:
            texts.append(prefix)
            continue
        common = _WORDS_BEGIN.get(prefix, "")
        for character in _characters(ALPHABETS[run[1]]):
            next_characters = _characters("A-Z0-9") if character in common else ("",)
            texts += [prefix + character + next_character for next_character in next_characters]
    return tuple(texts)


@cache
def _characters(alphabet: str) -> str:
    return "".join(re.findall(f"[{alphabet}]", "".join(map(chr, range(128)))))


def runs_expression(body: str) -> str:
    """Return the expression for a body: its runs and literal text."""
    expression, at = "", 0
    for run in _RUN.finditer(body):
        alphabet, minimum, open_ended, maximum = run.groups()
        count = f"{{{minimum},{maximum or ''}}}" if open_ended or maximum else f"{{{minimum}}}"
        expression += f"{re.escape(body[at : run.start()])}[{ALPHABETS[alphabet]}]{count}"
        at = run.end()
    return expression + re.escape(body[at:])


# Ordered by precedence: if two match the same token, the first one names it.
TOKEN_FACTS: Final[tuple[TokenFact, ...]] = (
    TokenFact("anthropic key", ("sk-ant-",), "<word 20+>", GITLEAKS),
    TokenFact("langfuse secret key", ("sk-lf-",), "<word 20+>", UNCHECKED),
    TokenFact("openai key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), "<word 20+>", GITLEAKS),
    TokenFact("openai key", ("sk-or-v1-",), "<word 20+>", UNCHECKED),
    TokenFact("openai key", ("sk-",), "<alnum 32+>", GITLEAKS),
    TokenFact("groq key", ("gsk_",), "<alnum 40+>", TRUFFLEHOG),
    TokenFact("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "<alnum 30+>", GITLEAKS),
    TokenFact("github token", ("github_pat_",), "<word 22+>", GITLEAKS),
    TokenFact(
        "gitlab token",
        (
            "glpat-",
            "gldt-",
            "glrt-",
            "glrtr-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glsoat-",
            "glimt-",
            "glagent-",
            "glwt-",
            "glffct-",
            "gloas-",
            "GR1348941",
        ),
        "<word 20+>",
        GITLAB,
    ),
    TokenFact("gitlab token", ("glpat-", "glrt-", "glcbt-"), "<word 20..310>.<word 2..20>", GITLAB),
    TokenFact("gitlab token", ("glpat-", "glrt-"), "<word 20..310>.<word 2..9>.<word 2+>", GITLAB),
    TokenFact("aws access key id", ("AKIA", "ASIA", "ABIA", "ACCA"), "<upper 16>", GITLEAKS),
    TokenFact("aws access key id", ("A3T",), "<upper 17>", GITLEAKS, exact=True, digits=True),
    TokenFact(
        "aws session token", ("IQoJb3JpZ2lu", "FwoGZXIvYXdz", "FQoGZXIvYXdz", "AQoDYXdz"), "<base64 100+>", TRUFFLEHOG
    ),
    TokenFact("bedrock key", ("ABSK",), "<base64 60+>", GITLEAKS),
    TokenFact("bedrock key", ("bedrock-api-key-",), "<padded 20+>", GITLEAKS),
    TokenFact("google api key", ("AIza",), "<word 30+>", GITLEAKS),
    TokenFact("google api key", ("AQ.Ab8",), "<word 40+>", UNCHECKED),
    TokenFact("google oauth secret", ("GOCSPX-", "ya29."), "<word 20+>", TRUFFLEHOG),
    TokenFact("google oauth secret", ("1//0",), "<word 30+>", TRUFFLEHOG),
    TokenFact("google storage key", ("GOOG1E",), "<upper 55+>", TRUFFLEHOG),
    TokenFact(
        "stripe key",
        ("sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"),
        "<alnum 10+>",
        GITLEAKS,
        digits=True,
    ),
    TokenFact("stripe key", ("whsec_",), "<base64 16+>", GITHUB),
    TokenFact("npm token", ("npm_", "NPM_"), "<alnum 30+>", GITLEAKS, digits=True),
    TokenFact("pypi token", ("pypi-AgE",), "<word 30+>", GITLEAKS),
    TokenFact("hugging face token", ("hf_",), "<alnum 30+>", GITLEAKS),
    TokenFact("hugging face token", ("api_org_",), "<alnum 30+>", GITLEAKS),
    TokenFact("twilio key", ("SK",), "<anyhex 32>", GITLEAKS, exact=True, digits=True),
    TokenFact("sendgrid key", ("SG.",), "<word 16..40>.<word 16+>", GITHUB),
    TokenFact("sendgrid key", ("SG.",), "<dotted 66>", GITLEAKS),
    TokenFact("shopify token", ("shpat_", "shpss_", "shpca_", "shppa_"), "<anyhex 32>", GITLEAKS),
    TokenFact("shopify token", ("shpua_", "shpcs_", "shpit_"), "<anyhex 32>", UNCHECKED),
    TokenFact("linear key", ("lin_api_",), "<alnum 30+>", GITLEAKS),
    TokenFact("linear key", ("lin_oauth_",), "<alnum 30+>", UNCHECKED),
    TokenFact("grafana token", ("glsa_",), "<word 24+>", GITLEAKS),
    TokenFact("grafana token", ("glc_",), "<base64 32+>", GITLEAKS, digits=True),
    TokenFact("grafana token", ("eyJrIjoi",), "<base64 60+>", GITLEAKS),
    TokenFact("docker token", ("dckr_pat_", "dckr_oat_"), "<word 20+>", TRUFFLEHOG),
    TokenFact("sentry token", ("sntrys_eyJ",), "<any64 20+>", GITLEAKS),
    TokenFact("sentry token", ("sntryu_",), "<hex 40+>", GITLEAKS),
    TokenFact("figma token", ("figd_", "figo_", "figor_"), "<word 30+>", TRUFFLEHOG),
    TokenFact("xai key", ("xai-",), "<alnum 40+>", TRUFFLEHOG, digits=True),
    TokenFact("perplexity key", ("pplx-",), "<alnum 32+>", GITLEAKS),
    TokenFact("age key", ("AGE-SECRET-KEY-1",), "<upper 40+>", GITLEAKS),
    TokenFact("atlassian token", ("ATATT3",), "<word= 40+>", GITLEAKS),
    TokenFact("atlassian token", ("ATCTT3",), "<word= 40+>", UNCHECKED),
    TokenFact("atlassian token", ("ATBB",), "<alnum 32>", TRUFFLEHOG),
    TokenFact("notion token", ("ntn_",), "<digit 6+><alnum 30+>", GITLEAKS),
    TokenFact("supabase token", ("sbp_",), "<hex 40>", TRUFFLEHOG),
    TokenFact("supabase token", ("sb_secret_",), "<word 20+>", UNCHECKED),
    TokenFact("replicate token", ("r8_",), "<alnum 37>", TRUFFLEHOG),
    TokenFact("doppler token", ("dp.pt.",), "<alnum 40+>", GITLEAKS),
    TokenFact("doppler token", ("dp.ct.", "dp.sa.", "dp.st.", "dp.scim.", "dp.audit."), "<alnum 40+>", UNCHECKED),
    TokenFact("doppler token", ("dp.st.", "dp.sa."), "<word 2..35>.<alnum 40+>", TRUFFLEHOG),
    TokenFact("planetscale token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), "<dotted 30+>", GITLEAKS),
    TokenFact("digitalocean token", ("dop_v1_", "doo_v1_", "dor_v1_", "DOR_V1_"), "<alnum 40+>", GITLEAKS),
    TokenFact("databricks token", ("dapi", "dkea"), "<hex 32>", GITLEAKS),
    TokenFact("databricks token", ("dose",), "<hex 32>", UNCHECKED),
    TokenFact("vault token", ("hvs.", "hvb."), "<word 20+>", GITLEAKS),
    TokenFact("vault token", ("hvr.",), "<word 20+>", UNCHECKED),
    TokenFact("terraform token", (".atlasv1.",), "<word= 40+>", GITLEAKS, front="<alnum 14>"),
    TokenFact("fly token", ("fm1a_", "fm1r_", "fm2_"), "<base64 60+>", GITLEAKS),
    TokenFact("service key", ("tskey-",), "<alpha 2..12>-<word 16+>", TRUFFLEHOG),
    TokenFact("service key", ("NRAK-",), "<upper 27>", GITLEAKS),
    TokenFact("service key", ("NRAA-", "NRRA-"), "<upper 27>", UNCHECKED),
    TokenFact("service key", ("NRII-",), "<word 32>", GITLEAKS),
    TokenFact("service key", ("NRJS-",), "<hex 19>", GITLEAKS),
    TokenFact("service key", ("PMAK-",), "<anyhex 24>-<anyhex 34>", GITLEAKS),
    TokenFact("service key", ("PMAT-",), "<upper 26>", GITHUB),
    TokenFact("service key", ("lsv2_pt_", "lsv2_sk_"), "<hex 32>", TRUFFLEHOG),
    TokenFact("service key", ("pcsk_",), "<word 40+>", TRUFFLEHOG),
    TokenFact("service key", ("pul-",), "<hex 40>", GITLEAKS),
    TokenFact("service key", ("rubygems_",), "<hex 48>", GITLEAKS),
    TokenFact("service key", ("HRKU-",), "<word 36+>", GITLEAKS),
    TokenFact("service key", ("dt0c01.",), "<alnum 24>.<alnum 64>", GITLEAKS),
    TokenFact("service key", ("dt0s01.", "dt0s02.", "dt0s16."), "<alnum 24>.<alnum 64>", UNCHECKED),
    TokenFact("service key", ("tvly-",), "<word 20+>", TRUFFLEHOG, digits=True),
    TokenFact("service key", ("phx_", "phs_"), "<alnum 40+>", TRUFFLEHOG),
    TokenFact("1password key", ("A3-",), "<upper 6>-<upper 11>-<upper 5>-<upper 5>-<upper 5>", GITLEAKS),
    TokenFact("1password key", ("A3-",), "<upper 6>-<upper 6>-<upper 5>-<upper 5>-<upper 5>-<upper 5>", GITLEAKS),
    TokenFact("1password token", ("ops_eyJ",), "<padded 40+>", GITLEAKS),
    TokenFact("adafruit key", ("aio_",), "<alnum 28>", TRUFFLEHOG),
    TokenFact("adobe secret", ("p8e-",), "<alnum 32>", GITLEAKS),
    TokenFact("aiven password", ("AVNS_",), "<word 19+>", TRUFFLEHOG),
    TokenFact("airtable token", ("pat",), "<alnum 14>.<hex 64>", GITLEAKS, exact=True),
    TokenFact("akamai key", ("akab-",), "<lower 16>-<lower 16>", TRUFFLEHOG),
    TokenFact("alchemy key", ("alcht_",), "<alnum 30>", GITHUB),
    TokenFact("alibaba key id", ("LTAI",), "<alnum 12+>", GITLEAKS, digits=True),
    TokenFact("anyscale key", ("esecret_",), "<lower 20+>", UNCHECKED),
    TokenFact("apify token", ("apify_api_",), "<alnum 30+>", TRUFFLEHOG),
    TokenFact("artifactory key", ("AKCp",), "<alnum 60+>", GITLEAKS),
    TokenFact("artifactory token", ("cmVmd",), "<alnum 59>", GITLEAKS, exact=True),
    TokenFact(
        "authress key",
        ("sc_", "ext_", "scauth_", "authress_"),
        "<alnum 5..30>.<alnum 4..6>.acc<word 11..33>.<any64 30..120>",
        GITLEAKS,
    ),
    TokenFact("azure key", ("AZDO",), "<alnum 4>", MICROSOFT, exact=True, front="<alnum 76>"),
    TokenFact("azure key", ("AzSe",), "<alnum 6>", MICROSOFT, exact=True, front="<alnum 42>"),
    TokenFact("azure key", ("AzFu",), "<word 6>==", MICROSOFT, front="<word 44>"),
    TokenFact("azure key", ("+ACR",), "<base64 6>", MICROSOFT, exact=True, front="<base64 42>"),
    TokenFact("azure key", ("APIM", "ACDb", "+ABa", "+AMC", "+ASt"), "<base64 6>==", MICROSOFT, front="<base64 76>"),
    TokenFact("azure key", ("AIoT", "+ASb", "+AEh", "+ARm", "AzCa"), "<base64 6>=", MICROSOFT, front="<base64 33>"),
    TokenFact("azure key", ("JQQJ99",), "<alnum 26+>", MICROSOFT, front="<alnum 46..52>"),
    TokenFact(
        "azure client secret",
        ("0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"),
        "<tilde 31..34>",
        GITLEAKS,
        front="<tilde 3>",
    ),
    TokenFact("bitbucket token", ("BBDC-",), "<base64 40+>", TRUFFLEHOG),
    TokenFact("braintree token", ("access_token$production$", "access_token$sandbox$"), "<lower 16>$<hex 32>", GITHUB),
    TokenFact("buildkite token", ("bkua_", "bkct_", "bkpt_"), "<alnum 40>", TRUFFLEHOG),
    TokenFact("cashfree key", ("cfsk_ma_prod_", "cfsk_ma_test_"), "<hex 32>_<hex 8>", GITHUB),
    TokenFact("cerebras key", ("csk-",), "<alnum 48>", UNCHECKED),
    TokenFact("circleci token", ("CCIPAT_", "CCIPRJ_"), "<alnum 22>_<hex 40>", TRUFFLEHOG),
    TokenFact("clickhouse key", ("4b1d",), "<alnum 38>", GITLEAKS, exact=True),
    TokenFact("clojars token", ("CLOJARS_", "Clojars_", "clojars_"), "<alnum 60>", GITLEAKS),
    TokenFact("cloudflare key", ("v1.0-",), "<hex 24>-<hex 146>", GITLEAKS),
    TokenFact("cloudflare key", ("cfut_", "cfat_", "cfk_"), "<alnum 40+>", UNCHECKED),
    TokenFact("cockroach key", ("CCDB1_",), "<alnum 22>_<alnum 40>", GITHUB),
    TokenFact("contentful token", ("CFPAT-",), "<word 40+>", TRUFFLEHOG),
    TokenFact("crates token", ("cio",), "<alnum 32>", TRUFFLEHOG, exact=True, digits=True),
    TokenFact("cursor key", ("key_",), "<hex 64>", UNCHECKED),
    TokenFact("cursor key", ("crsr_",), "<hex 60+>", UNCHECKED),
    TokenFact("defined networking token", ("dnkey-",), "<word= 26>-<word= 52>", GITLEAKS),
    TokenFact("deno token", ("ddp_", "ddw_"), "<alnum 36>", TRUFFLEHOG),
    TokenFact("dropbox token", ("sl.",), "<word= 130+>", GITLEAKS),
    TokenFact("duffel token", ("duffel_test_", "duffel_live_"), "<word= 43>", GITLEAKS),
    TokenFact("e2b key", ("e2b_",), "<hex 40>", UNCHECKED),
    TokenFact("easypost key", ("EZAK", "EZTK"), "<alnum 54>", GITLEAKS, exact=True),
    TokenFact("elastic key", ("essu_",), "<padded 40+>", UNCHECKED),
    TokenFact("elevenlabs key", ("sk_",), "<hex 48>", TRUFFLEHOG, exact=True),
    TokenFact("facebook token", ("EAA",), "<alnum 80+>", GITLEAKS),
    TokenFact(
        "facebook token",
        (*(f"{digit}|" for digit in range(10)), *(f"{digit}%" for digit in range(10))),
        "<word 27..40>",
        GITLEAKS,
        exact=True,
        digits=True,
        front="<digit 14..15>",
    ),
    TokenFact("firecrawl key", ("fc-",), "<hex 32>", UNCHECKED, exact=True),
    TokenFact("fireworks key", ("fw_",), "<alnum 22..24>", TRUFFLEHOG, exact=True, digits=True),
    TokenFact("flutterwave key", ("FLWSECK_TEST-", "FLWPUBK_TEST-"), "<alnum 12+>", GITLEAKS),
    TokenFact("flutterwave key", ("FLWSECK-", "FLWPUBK-"), "<alnum 12+>", UNCHECKED),
    TokenFact("frameio token", ("fio-u-",), "<word= 60+>", GITLEAKS),
    TokenFact("gitlab cookie", ("_gitlab_session=",), "<lower 32>", GITLEAKS),
    TokenFact("gocardless token", ("live_",), "<word= 40>", GITLEAKS, exact=True, digits=True),
    TokenFact("harness token", ("pat.", "sat."), "<word 22>.<alnum 24>.<alnum 20>", GITLEAKS),
    TokenFact("hubspot token", ("pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"), _UUID, TRUFFLEHOG),
    TokenFact("infracost key", ("ico-",), "<alnum 32>", GITLEAKS),
    TokenFact("instagram token", ("IGQV", "IGQW"), "<word 60+>", TRUFFLEHOG),
    TokenFact("intercom token", ("dG9rO",), "<padded 50+>", GITHUB),
    TokenFact("intra42 secret", ("s-s4t2ud-", "s-s4t2af-"), "<anyhex 64>", GITLEAKS),
    TokenFact("ionic token", ("ion_",), "<alnum 42>", GITHUB),
    TokenFact("jina key", ("jina_",), "<word 50+>", UNCHECKED),
    TokenFact("jwt", (".ey",), "<slashed 17+>.<slashed 10+>", GITLEAKS, front="<alnum 19..400>"),
    TokenFact("encoded jwt", ("ZXlK",), "<padded 60+>", GITLEAKS),
    TokenFact("launchdarkly key", ("api-", "sdk-", "mob-"), _UUID, TRUFFLEHOG),
    TokenFact("lichess token", ("lip_",), "<alnum 20>", TRUFFLEHOG, exact=True),
    TokenFact("llamacloud key", ("llx-",), "<alnum 40+>", UNCHECKED),
    TokenFact("lob key", ("live_", "test_"), "<hex 35>", GITLEAKS, exact=True),
    TokenFact("lob key", ("live_pub_", "test_pub_"), "<hex 31>", GITLEAKS, exact=True),
    TokenFact(
        "mailchimp key",
        ("-us1", "-us2", "-us3", "-us4", "-us5", "-us6", "-us7", "-us8", "-us9"),
        "<digit 0..1>",
        GITLEAKS,
        exact=True,
        front="<hex 32>",
    ),
    TokenFact("mailgun key", ("key-", "pubkey-"), "<hex 32>", GITLEAKS, exact=True),
    TokenFact("mandrill key", ("md-",), "<word 22>", TRUFFLEHOG, exact=True, digits=True),
    TokenFact("mapbox token", ("pk.eyJ", "sk.eyJ", "tk.eyJ"), "<word 40+>.<word 20+>", TRUFFLEHOG),
    TokenFact("maxmind key", ("_mmk",), "", GITLEAKS, exact=True, front="<word 36>"),
    TokenFact("mercadopago token", ("APP_USR-",), "<digit 12+>-<digit 6>-<hex 32>", TRUFFLEHOG),
    TokenFact("midtrans key", ("Mid-server-", "SB-Mid-server-"), "<word 20+>", GITHUB),
    TokenFact("mongodb secret", ("mdb_sa_sk_",), "<word 40+>", GITHUB),
    TokenFact("neon key", ("napi_",), "<lower 60+>", UNCHECKED),
    TokenFact("neon key", ("npg_",), "<alnum 12+>", UNCHECKED, digits=True),
    TokenFact("netlify token", ("nfp_", "nfc_", "nfu_"), "<alnum 36+>", TRUFFLEHOG),
    TokenFact("nuget key", ("oy2",), "<lower 43>", TRUFFLEHOG, exact=True),
    TokenFact("nvidia key", ("nvapi-",), "<word 60+>", TRUFFLEHOG),
    TokenFact("octopus key", ("API-",), "<upper 25..27>", GITLEAKS, exact=True, digits=True),
    TokenFact(
        "onfido token",
        ("api_live.", "api_sandbox.", "api_live_us.", "api_live_ca.", "api_sandbox_us.", "api_sandbox_ca."),
        "<word 11>.<word 32>",
        TRUFFLEHOG,
    ),
    TokenFact("openshift token", ("sha256~",), "<word 43>", GITLEAKS),
    TokenFact("paddle key", ("pdl_live_apikey_", "pdl_sdbx_apikey_"), "<lower 26>_<alnum 22>_<alnum 3>", GITHUB),
    TokenFact("pinterest token", ("pina_",), "<alnum 60+>", GITHUB),
    TokenFact("plaid token", ("access-sandbox-", "access-development-", "access-production-"), _UUID, GITLEAKS),
    TokenFact("polar token", ("polar_oat_", "polar_pat_", "polar_rt_", "polar_at_"), "<alnum 30+>", UNCHECKED),
    TokenFact("prefect token", ("pnu_",), "<alnum 36>", GITLEAKS),
    TokenFact("prefect token", ("pnb_",), "<alnum 36>", UNCHECKED),
    TokenFact("rapidapi key", ("msh",), "<lower 15>p1<lower 6>jsn<lower 12>", TRUFFLEHOG, front="<lower 10>"),
    TokenFact("readme key", ("rdme_",), "<lower 70>", GITLEAKS),
    TokenFact("render key", ("rnd_",), "<alnum 28+>", TRUFFLEHOG),
    TokenFact("resend key", ("re_",), "<alnum 8>_<alnum 24>", UNCHECKED, exact=True),
    TokenFact("rootly key", ("rootly_",), "<hex 64>", TRUFFLEHOG),
    TokenFact("runpod key", ("rpa_",), "<upper 40+>", UNCHECKED),
    TokenFact("samsara token", ("samsara_api_",), "<alnum 28+>", GITHUB),
    TokenFact("scalingo token", ("tk-us-",), "<word 48>", GITLEAKS),
    TokenFact("brevo key", ("xkeysib-",), "<hex 64>-<alnum 16>", GITLEAKS),
    TokenFact("brevo key", ("xsmtpsib-",), "<hex 64>-<alnum 16>", UNCHECKED),
    TokenFact("settlemint token", ("sm_aat_", "sm_pat_", "sm_sat_"), "<alnum 16>", GITLEAKS),
    TokenFact("shippo token", ("shippo_live_", "shippo_test_"), "<anyhex 40>", GITLEAKS),
    TokenFact("snyk token", ("snyk_uat.", "snyk_sat."), "<alnum 8>.<dotted 20+>", TRUFFLEHOG),
    TokenFact("sonar token", ("squ_", "sqp_", "sqa_"), "<hex 40>", GITLEAKS),
    TokenFact("sourcegraph token", ("sgp_",), "<anyhex 40>", GITLEAKS),
    TokenFact("sourcegraph token", ("slk_",), "<anyhex 40>", UNCHECKED),
    TokenFact("sourcegraph token", ("sgp_",), "<alnum 5..16>_<anyhex 40>", GITLEAKS),
    TokenFact("segment token", ("sgp_",), "<alnum 64>", TRUFFLEHOG),
    TokenFact("square token", ("sq0atp-",), "<word 22+>", GITLEAKS),
    TokenFact("square token", ("sq0csp-", "sq0idp-"), "<word 22+>", UNCHECKED),
    TokenFact("square token", ("EAAA",), "<word 22..60>", GITLEAKS, exact=True, digits=True),
    TokenFact("stackhawk key", ("hawk.",), "<word 20>.<word 20>", TRUFFLEHOG),
    TokenFact("telnyx key", ("KEY0",), "<anyhex 31>_<alnum 22>", GITHUB),
    TokenFact("tencent key id", ("AKID",), "<alnum 32>", TRUFFLEHOG, exact=True, digits=True),
    TokenFact("trigger key", ("tr_dev_", "tr_prod_", "tr_stg_", "tr_pat_"), "<alnum 20+>", UNCHECKED),
    TokenFact("typeform token", ("tfp_",), "<dotted 50+>", GITLEAKS),
    TokenFact("ubidots token", ("BBFF-",), "<alnum 30>", TRUFFLEHOG),
    TokenFact("unkey key", ("unkey_",), "<alnum 20+>", UNCHECKED),
    TokenFact("val town token", ("vtwn_",), "<alnum 20+>", UNCHECKED),
    TokenFact("vercel token", ("vcp_", "vci_", "vca_", "vcr_", "vck_"), "<alnum 24+>", GITHUB, digits=True),
    TokenFact("vercel token", ("vercel_blob_rw_",), "<alnum 16>_<alnum 30>", TRUFFLEHOG),
    TokenFact("voiceflow key", ("VF.DM.", "VF.WS."), "<hex 24>.<alnum 16>", TRUFFLEHOG),
    TokenFact("volcengine key", ("AKLT",), "<word 40+>", GITHUB),
    TokenFact("voyage key", ("pa-",), "<word 43>", UNCHECKED, exact=True, digits=True),
    TokenFact("wakatime key", ("waka_",), _UUID, GITHUB),
    TokenFact("wandb key", ("wandb_v1_",), "<word 40+>", UNCHECKED),
    TokenFact("xata key", ("xau_",), "<alnum 40+>", TRUFFLEHOG),
    TokenFact("yandex key", ("AQVN",), "<word 35+>", GITLEAKS),
    TokenFact("yandex key", ("t1.",), "<word= 8..800>.<word= 86>", GITLEAKS),
    TokenFact("yandex key", ("y0_",), "<word 50+>", TRUFFLEHOG),
    TokenFact("zuplo key", ("zpka_",), "<alnum 30+>", GITHUB),
)
