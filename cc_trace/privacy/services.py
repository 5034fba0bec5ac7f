"""Secrets that are recognized only by the name of their service: nothing in the value identifies them.

Rule: the name comes before an assignment, and the value has the form of the service's secrets, in the notation of
`token_facts`. If a service's form is not known, the value must look generated.
Sources: the default rules of gitleaks and the detectors of trufflehog, as `token_facts` names them.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from cc_trace.privacy.token_facts import runs_expression

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

_UUID: Final = "<anyhex 8>-<anyhex 4>-<anyhex 4>-<anyhex 4>-<anyhex 12>"
_FORMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "adafruit": ("<word 32>",),
        "adobe": ("<hex 32>",),
        "airtable": ("<alnum 17>",),
        "algolia": ("<alnum 32>",),
        "alibaba": ("<alnum 30>",),
        "artifactory": ("<alnum 64>", "<alnum 73>"),
        "asana": ("<digit 16>", "<alnum 32>"),
        "atlassian": ("<alnum 24>",),
        "beamer": ("b_<word= 44>",),
        "bintray": ("<alnum 64>", "<alnum 73>"),
        "bitbucket": ("<alnum 32>", "<word= 64>"),
        "bittrex": ("<alnum 32>",),
        "cloudflare": ("<word 40>", "<hex 37>"),
        "co_api_key": ("<alnum 40>",),
        "codecov": ("<alnum 32>",),
        "cohere": ("<alnum 40>",),
        "coinbase": ("<word 64>",),
        "confluence": ("<alnum 24>",),
        "confluent": ("<alnum 16>", "<alnum 64>"),
        "contentful": ("<word= 43>",),
        "contribsys__com": ("<hex 8>:<hex 8>",),
        "datadog": ("<alnum 32>", "<alnum 40>"),
        "discord": ("<anyhex 64>", "<digit 18>", "<word= 32>"),
        "droneci": ("<alnum 32>",),
        "dropbox": ("<alnum 15>", "<word= 64>", "sl.<word= 130+>"),
        "etsy": ("<alnum 24>",),
        "facebook": ("<anyhex 32>",),
        "fastly": ("<word= 32>",),
        "finicity": ("<anyhex 32>", "<alnum 20>"),
        "finnhub": ("<alnum 20>",),
        "flickr": ("<alnum 32>",),
        "freshbooks": ("<alnum 64>",),
        "gitter": ("<word 40>",),
        "gocardless": ("live_<word= 40>",),
        "heroku": (_UUID,),
        "hubspot": (_UUID,),
        "intercom": ("<word= 60>",),
        "jfrog": ("<alnum 64>", "<alnum 73>"),
        "jira": ("<alnum 24>",),
        "kraken": ("<any64 80..90>",),
        "kucoin": ("<anyhex 24>", _UUID),
        "launchdarkly": ("<word= 40>",),
        "linear": ("<hex 32>",),
        "linked_in": ("<alnum 14>", "<alnum 16>"),
        "linked-in": ("<alnum 14>", "<alnum 16>"),
        "linkedin": ("<alnum 14>", "<alnum 16>"),
        "lob_": ("live_<hex 35>", "test_<hex 35>", "live_pub_<hex 31>", "test_pub_<hex 31>"),
        "looker": ("<alnum 20>", "<alnum 24>"),
        "mailchimp": ("<hex 32>-us<digit 1..2>",),
        "mailgun": ("<alnum 32>-<alnum 8>-<alnum 8>", "key-<hex 32>", "pubkey-<hex 32>"),
        "mapbox": ("pk.<alnum 60>.<alnum 22>", "sk.<alnum 60>.<alnum 22>"),
        "mattermost": ("<alnum 26>",),
        "meraki": ("<hex 40>",),
        "message-bird": ("<alnum 25>", _UUID),
        "message_bird": ("<alnum 25>", _UUID),
        "messagebird": ("<alnum 25>", _UUID),
        "netlify": ("<word= 40..46>",),
        "new-relic": ("<alnum 64>",),
        "new-york-times": ("<word= 32>",),
        "new_relic": ("<alnum 64>",),
        "newrelic": ("<alnum 64>",),
        "newyorktimes": ("<word= 32>",),
        "nytimes": ("<word= 32>",),
        "okta": ("00<word= 40>",),
        "plaid": ("<alnum 24>", "<alnum 30>"),
        "private_ai": ("<alnum 32>",),
        "private-ai": ("<alnum 32>",),
        "privateai": ("<alnum 32>",),
        "rapidapi": ("<word 50>",),
        "sendbird": (_UUID, "<anyhex 40>"),
        "sentry": ("<hex 64>",),
        "snyk": (_UUID,),
        "sonar": ("<word= 40>", "squ_<word= 40>", "sqp_<word= 40>", "sqa_<word= 40>"),
        "squarespace": (_UUID,),
        "sumo": ("su<alnum 12>", "<alnum 64>"),
        "telegr": ("<digit 5..16>:A<word 34>",),
        "travis": ("<alnum 22>",),
        "twitch": ("<alnum 30>",),
        "twitter": ("<alnum 45>", "<alnum 25>", "<alnum 50>", "<digit 15..25>-<alnum 20..40>", "AAAA<percent 98..118>"),
        "typeform": ("tfp_<dotted 59>",),
        "xray": ("<alnum 64>", "<alnum 73>"),
        "yandex": ("AQVN<word 35..38>", "YC<word 38>"),
        "zendesk": ("<alnum 40>",),
    }
)
# Of these only the name is known.
_NAMES_ONLY: Final = (
    "abuseipdb accuweather agora airbrake airvisual aiven alchemy alienvault amadeus amplitude apiflash appcues"
    " appsflyer assemblyai auth0 aviationstack axiom baremetrics besttime billomat bitmex blazemeter browserstack"
    " bugsnag calendarific calendly cannyio campaignmonitor chartmogul clearbit clickup clicksend clockify"
    " cloudconvert cloudinary cloudsmith cloudways codacy codeclimate coinapi coinlayer coinmarketcap contentstack"
    " convertkit coveralls currencylayer customerio deepai deepgram delighted detectify docusign dotmailer"
    " elasticemail etherscan eventbrite exchangerate fileio fixerio formbucket freshdesk freshservice geoapify"
    " geocodio getresponse giphy gitbook gumroad gyazo hashnode helpscout hotjar html2pdf hunter_io hypertrack"
    " infura instabot ipdata ipgeolocation ipstack jotform jumpcloud keen.io keycdn klaviyo kontent lastfm lemlist"
    " lessannoyingcrm lexigram livestorm logzio loggly lokalise mailboxlayer mailerlite mailjet mailsac mapquest"
    " marketstack mesibo mistral mixpanel mockaroo moralis nasdaq netcore nexmo nutritionix nylas onelogin"
    " onesignal opencagedata openweather optimizely opsgenie pagerduty papertrail paralleldots pastebin paymongo"
    " pingdom pipedrive pivotaltracker pixabay plivo polygon_io postmark prerender pushbullet pusher quickbase"
    " rapid7 raygun razorpay rechargepayments recurly retellai ringcentral rollbar runscope salesforce sauce_labs"
    " scalyr scrapeowl scraperapi screenshotapi securitytrails sendinblue serpstack sheety shodan shutterstock"
    " signalwire sinch smartsheet snipcart sparkpost splunk spoonacular spotify statuscake statuspage stormglass"
    " strava surveysparrow survicate tallyfy tencent ticketmaster tiingo timezoneapi tineswebhook todoist tomtom"
    " tradier transferwise trello tyntec unsplash upcdn uplead userstack vagrantcloud virustotal vonage vultr"
    " wakatime weatherbit weatherstack webflow webscraping whoxy wistia wordnik worldcoinindex wrike yelp"
    " zenscrape zerobounce zoho zonka"
)
_UNKNOWN_FORM: Final = r"(?=(?:[^0-9]*[0-9]+[A-Za-z]){2})[\w+/=-]{20,128}\Z"
# A letter follows a digit, while names have their digits at the end; or there are more consecutive consonants, or
# capitals closer together, than in words.
_GENERATED: Final = r".*(?:[0-9][A-Za-z]|(?i:[bcdfghjklmnpqrstvwxz]{5})|(?:[A-Z][a-z]{1,2}(?=[A-Z])){2})"
# For a numeric value: the name alone, or with `client` or `client_id`. Other numbers after a name are no secret.
_CLIENT: Final = r"(?i)[_ .-]*(?:client[_ .-]?(?:id)?)?\Z"
# How the rest of the name describes the value: as no secret; as a secret.
_NAMES_NO_SECRET: Final = r"(?i).*(?:id|sha|hash|commit|version|digest|trace|release|url|uri|name|user)[\s'\"]{0,3}\Z"  # noqa: S105 -- an expression
_NAMES_SECRET: Final = r"(?i).*(?:key|token|secret|pass|auth|cred)"  # noqa: S105 -- an expression


def _spellings(name: str) -> set[str]:
    return {name, name.upper(), name.capitalize(), name.title()}


SERVICE_HINTS: Final = tuple(
    sorted(spelling for name in (*_FORMS, *_NAMES_ONLY.split()) for spelling in _spellings(name))
)


_HINTS: Final = frozenset(SERVICE_HINTS)
_LONGEST_NAME: Final = max(map(len, SERVICE_HINTS))


def may_be_service_secret(match: re.Match[str], compiled: Callable[[str], re.Pattern[str]]) -> bool:
    """Return whether the value after a service's name (group `service`) has the form of that service's secrets."""
    text, value = match.string, match["service"]
    name = _name_at(text, match.start())
    rest = text[match.start() + len(name) : match.start("service")]
    says_secret = compiled(_NAMES_SECRET).match(rest) is not None
    if any(compiled(form).match(value) for form in _expressions(name)):
        if value.isdigit():
            return says_secret or compiled(_CLIENT).match(_without_assignment(rest)) is not None
        return compiled(_GENERATED).match(value) is not None and (
            says_secret or not compiled(_NAMES_NO_SECRET).match(_without_assignment(rest))
        )
    if compiled(_NAMES_NO_SECRET).match(_without_assignment(rest)):
        return False
    return compiled(_UNKNOWN_FORM).match(value) is not None


def _without_assignment(rest: str) -> str:
    """Return the rest of a name without the assignment after it."""
    return rest.rstrip(" \t\r\n'\"`\\=:>,(|?+.<")


def _name_at(text: str, start: int) -> str:
    """Return the longest service name that begins at a position."""
    candidate = text[start : start + _LONGEST_NAME]
    return next((candidate[:length] for length in range(len(candidate), 0, -1) if candidate[:length] in _HINTS), "")


@cache
def _expressions(name: str) -> tuple[str, ...]:
    return tuple(f"(?:{runs_expression(form)})\\Z" for form in _FORMS.get(name.lower(), ()))
