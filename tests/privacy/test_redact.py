"""What is masked and what is not, pattern by pattern; then what holds for any text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from typing import Any
from urllib.parse import quote, quote_plus

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from shared import ROOT, corpus, label

from cc_trace.errors import ConfigError
from cc_trace.privacy import scan
from cc_trace.privacy.copies import Copies
from cc_trace.privacy.patterns import PATTERNS
from cc_trace.privacy.redactor import Redactor
from cc_trace.privacy.scan import Budget, Match, secrets
from cc_trace.privacy.token_facts import TOKEN_FACTS

# Letters and digits without a meaning, so that no scanner takes what is made from them for a real key.
FAKE = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 8
HEX = "0123456789abcdef" * 4
PRIVATE = "PRIVATE " + "KEY-----"
LINE = FAKE[:64] + "\n"
HOOK = f"{HEX[:36]}@{HEX[:36]}/IncomingWebhook/{HEX[:32]}/x"


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


# Name, what stands before the secret, the secret, what stands behind it.
MASKED = [
    ("anthropic key", "export KEY=", "sk-ant-" + "api03-" + FAKE[:95], "\n"),
    ("anthropic key", "\\n", "sk-ant-" + "oat01-" + FAKE[:60] + "-_" + FAKE[:20], "\\nnext"),
    ("langfuse secret key", "(", "sk-lf-" + "01234567-89ab-cdef-0123-456789abcdef", ")"),
    ("langfuse secret key", "LANGFUSE_SECRET_KEY=", "sk-lf-" + FAKE[:36], ""),
    ("openai key", "key: ", "sk-" + FAKE[:48], " (old)"),
    ("openai key", '"', "sk-" + "proj-" + FAKE[:80] + "-" + FAKE[:40], '"'),
    ("openai key", "", "sk-" + "or-v1-" + HEX, ""),
    ("groq key", "\x1b[32m", "gsk_" + FAKE[:52], "\x1b[0m"),
    ("groq key", "use ", "gsk_" + FAKE[:48], ", please"),
    *(("github token", "token ", prefix + FAKE[:36], ".") for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("github token", "https://", "github_" + "pat_" + FAKE[:22] + "_" + FAKE[:59], "@github.com/a/b"),
    ("gitlab token", "PRIVATE-TOKEN: ", "glpat-" + FAKE[:20], "\n"),
    ("gitlab token", "", "glpat-" + FAKE[:27] + ".01." + FAKE[:9], ""),
    *(("gitlab token", "", prefix + FAKE[:20], " ok") for prefix in ("gldt-", "glrt-", "glagent-", "GR1348941")),
    ("slack token", "", "xox" + "b-123456789012-1234567890123-" + FAKE[:24], ""),
    ("slack token", "say ", "xapp-" + "1-A0123456789-1234567890123-" + HEX, " now"),
    ("slack webhook", "https://hooks.slack.com/", "services/" + "T0000000/B0000000/" + FAKE[:24], ' -d "{}"'),
    ("slack webhook", "hooks.slack.com/", "workflows/" + "T0000000/A0000000/" + FAKE[:24], ""),
    ("slack token", "", "xox" + "o-123456789-123456789-" + HEX[:24], ""),
    ("discord webhook", "https://discord.com/api/webhooks/123456789012345678/", FAKE[:68], " x"),
    ("discord webhook", "discordapp.com/api/webhooks/123456789012345678/", "-_" + FAKE[:66], ""),
    ("aws access key id", "aws_access_key_id = ", "AKIA" + "IOSFODNN7EXAMPLE", "\n"),
    ("aws access key id", "%3D", "ASIA" + "ABCDEFGHIJ234567", "&x"),
    ("aws secret key", "aws_secret_access_key = ", FAKE[:38] + "/+", "\n"),
    ("aws secret key", '\\"SecretAccessKey\\": \\"', FAKE[:40], '\\"'),
    ("aws secret key", "aws configure set aws_secret_access_key ", FAKE[:38] + "/+", "\n"),
    ("aws secret key", "|  SecretAccessKey |  ", FAKE[:40], "  |"),
    ("google api key", "?key=", "AIza" + FAKE[:35], "&x=1"),
    ("google api key", "'", "AIza" + "-_" + FAKE[:33], "'"),
    ("google oauth secret", '"client_secret":"', "GOCSPX-" + FAKE[:28], '"'),
    ("google oauth secret", "", "ya29." + "a0" + FAKE[:80], ""),
    ("google oauth secret", "refresh ", "1//0" + "g" + FAKE[:60], ""),
    ("azure signature", "https://a.example/b?sv=2022-11-02&se=2024-01-01T00%3A00Z&sp=r&sig=", FAKE[:43] + "%3D", '"'),
    ("azure signature", "SharedAccessSignature sr=x&sig=", FAKE[:40] + "%2B%3D", "&se=1700000000&skn=a"),
    ("azure signature", "?sp=r\\u0026sig=", FAKE[:43] + "=", "\\u0026se=1"),
    ("request signature", "https://x.s3.example/k?X-Amz-Signature=", HEX, "&a=1"),
    ("request signature", "https://storage.example/x?X-Goog-Signature=", HEX * 4, ""),
    ("request signature", "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=", HEX, "\n"),
    ("azure key", "AccountName=a;AccountKey=", FAKE[:86] + "==", ";EndpointSuffix=x"),
    ("azure key", "SharedAccessKeyName=Root;SharedAccessKey=", FAKE[:43] + "=", ""),
    ("stripe key", "STRIPE=", "sk_" + "live_" + FAKE[:24], ""),
    ("stripe key", "", "rk_" + "test_" + FAKE[:40], "\n"),
    ("stripe key", "'", "whsec_" + FAKE[:32], "'"),
    ("npm token", "_authToken=", "npm_" + FAKE[:36], "\n"),
    ("npm token", "[", "npm_" + FAKE[:36], "]"),
    ("pypi token", "password = ", "pypi-AgE" + "IcHlwaS5vcmc" + FAKE[:120], "\n"),
    ("pypi token", "", "pypi-AgE" + "NdGVzdC5weXBp" + FAKE[:90], ""),
    ("hugging face token", "login --token ", "hf_" + FAKE[:34], ""),
    ("hugging face token", "`", "hf_" + FAKE[:37], "`"),
    ("twilio key", "", "SK" + HEX[:32], ":"),
    ("twilio key", "sid ", "SK" + HEX[3:35], ""),
    ("sendgrid key", "", "SG." + FAKE[:22] + "." + FAKE[:43], ""),
    ("sendgrid key", "key=", "SG." + FAKE[:20] + "_-." + FAKE[:43], " "),
    ("shopify token", "", "shpat_" + HEX[:32], ""),
    ("shopify token", "X-Shopify-Access: ", "shpss_" + HEX[:32], "\n"),
    ("shopify token", "'", "shpca_" + HEX[:32], "'"),
    ("linear key", "", "lin_" + "api_" + FAKE[:40], ""),
    ("linear key", '"', "lin_" + "api_" + FAKE[:32], '",'),
    ("grafana token", "", "glsa_" + FAKE[:32] + "_0123abcd", ""),
    ("grafana token", "use ", "glc_" + "eyJ" + FAKE[:80] + "=", " now"),
    ("docker token", "", "dckr_" + "pat_" + FAKE[:27], ""),
    ("docker token", "docker login -u me -p ", "dckr_" + "pat_-_" + FAKE[:25], "\n"),
    ("sentry token", "", "sntrys_" + "eyJ" + FAKE[:90] + "_" + FAKE[:43], ""),
    ("sentry token", "as ", "sntryu_" + HEX, "."),
    ("figma token", "", "figd_" + FAKE[:40], ""),
    ("figma token", "(", "figd_" + "-_" + FAKE[:38], ")"),
    ("xai key", "", "xai-" + FAKE[:80], ""),
    ("xai key", "key ", "xai-" + FAKE[:64], "\n"),
    ("perplexity key", "", "pplx-" + FAKE[:48], ""),
    ("perplexity key", "`", "pplx-" + HEX, "`"),
    ("age key", "", "AGE-SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "Q" * 26, ""),
    ("age key", "# public key: age1x\n", "AGE-SECRET-" + "KEY-1" + "A2" * 29, "\n"),
    ("atlassian token", "", "ATATT3" + "xFfGF0" + FAKE[:180] + "=0123ABCD", ""),
    ("atlassian token", "curl --user me@example.com:", "ATATT3" + FAKE[:60], " x"),
    ("atlassian token", "", "ATCTT3" + "xFfGF0" + FAKE[:180] + "=0123ABCD", ""),
    ("atlassian token", "x:", "ATBB" + FAKE[:32], "@"),
    ("notion token", "", "ntn_" + "01234567890" + FAKE[:35], ""),
    ("notion token", "use secret_", FAKE[:43], " there"),
    ("supabase token", "", "sbp_" + HEX[:40], ""),
    ("supabase token", "login --token ", "sbp_" + HEX[8:48], "\n"),
    ("supabase token", 'createClient(url, "', "sb_" + "secret_" + FAKE[:22] + "_" + FAKE[:8], '")'),
    ("replicate token", "", "r8_" + FAKE[:37], ""),
    ("replicate token", "= '", "r8_" + FAKE[3:40], "'"),
    ("doppler token", "", "dp.pt." + FAKE[:43], ""),
    ("doppler token", "-t ", "dp.st." + "dev_main." + FAKE[:43], " run"),
    ("fly token", "a fo1_", FAKE[:43], ""),
    ("fly token", "FlyV1 ", "fm2_" + FAKE[:90] + "/+==,fm2_" + FAKE[:60], "\n"),
    ("planetscale token", "", "pscale_" + "tkn_" + FAKE[:43], ""),
    ("planetscale token", ":", "pscale_" + "pw_" + FAKE[:32] + "-_.=", "@"),
    ("digitalocean token", "", "dop_" + "v1_" + HEX, ""),
    ("digitalocean token", "refresh: ", "dor_" + "v1_" + HEX, "\n"),
    ("databricks token", "", "dapi" + HEX[:32], ""),
    ("databricks token", "--token ", "dapi" + HEX[:32] + "-2", " x"),
    ("vault token", "", "hvs." + FAKE[:24], ""),
    ("vault token", "VAULT=", "hvb." + FAKE[:90], "\n"),
    ("terraform token", "use ", FAKE[:14] + ".atlasv1." + FAKE[:67], ", please"),
    ("terraform token", "", FAKE[:14] + ".atlasv1." + "-_" + FAKE[:65], ""),
    ("service key", "tailscale up --authkey ", "tskey-" + "auth-" + FAKE[:17] + "-" + FAKE[:30], ""),
    ("service key", "", "NRAK-" + "QPZRY9X8GF2TVDW0S3JN54KHCE6", "\n"),
    ("service key", "(", "PMAK-" + HEX[:24] + "-" + HEX[:34], ")"),
    ("service key", "", "lsv2_" + "pt_" + HEX[:32] + "_" + HEX[:10], ""),
    ("service key", "", "pcsk_" + FAKE[:60], ""),
    ("service key", "", "pul-" + HEX[:40], ""),
    ("service key", "", "rubygems_" + HEX[:48], ""),
    ("service key", "", "HRKU-" + FAKE[:60], ""),
    ("service key", "", "dt0c01." + "QPZRY9X8GF2TVDW0S3JN54KH." + "A2" * 32, ""),
    ("service key", "", "tvly-" + "dev-" + FAKE[:32], ""),
    ("service key", "", "phx_" + FAKE[:43], ""),
    ("telegram token", "https://api.telegram.org/bot123456789:", "AA" + FAKE[:33], "/getMe"),
    ("telegram token", "1234567890:", "AA" + "-_" + FAKE[:31], ""),
    ("jwt", "token ", "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0." + FAKE[:43], " ok"),
    ("jwt", "?data=", "eyJ" + FAKE[:20] + "." + FAKE[:30] + "." + FAKE[:16] + "." + FAKE[:60] + "." + FAKE[:22], "&"),
    ("private key", "a\n", f"-----BEGIN RSA {PRIVATE}\n{LINE}{LINE}-----END RSA {PRIVATE}", "\nb"),
    ("private key", '"private_key": "', f"-----BEGIN {PRIVATE}\\n{LINE[:64]}\\n-----END {PRIVATE}", '\\n", "x": 1'),
    ("private key", "", f"-----BEGIN OPENSSH {PRIVATE}\n{LINE}{LINE}{FAKE[:9]}", ""),
    ("private key", "   1\t", f"-----BEGIN EC {PRIVATE}\n     2\t{LINE}     3\t{LINE[:64]}", "\n(cut)"),
    (
        "private key",
        "",
        f"-----BEGIN {PRIVATE}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n\n{LINE}{LINE[:64]}",
        "",
    ),
    ("private key", "a\n", f"{LINE}{LINE}{FAKE[:20]}==\n-----END RSA {PRIVATE}", "\nb"),
    ("private key", "key.pem:1:", f"-----BEGIN {PRIVATE}\nkey.pem-2-{LINE}key.pem-3-{LINE[:64]}", "\n--\n"),
    ("private key", "", f"-----BEGIN {PRIVATE}\n{LINE}... [5 lines truncated] ...\n{LINE}{FAKE[:20]}==", "\n"),
    ("encoded credentials", "client-key-data: ", encoded(f"-----BEGIN RSA {PRIVATE}\n{LINE}"), "\n"),
    ("encoded credentials", '"tls.key": "', encoded(f"-----BEGIN {PRIVATE}\n{LINE}"), '"'),
    ("encoded credentials", "tls.key: ", encoded(f"-----BEGIN EC {PRIVATE}\n{LINE}"), "\n"),
    ("encoded credentials", "ssh: ", encoded(f"-----BEGIN OPENSSH {PRIVATE}\n{LINE}"), "\n"),
    ("encoded credentials", ".dockerconfigjson: ", encoded('{"auths":{"x":{"auth":"abc"}}}'), "\n"),
    ("encoded credentials", ".dockerconfigjson: ", encoded('{\n\t"auths": {"x": {"auth": "abc"}}}'), "\n"),
    ("url password", "postgres://app:", "hunter2", "@db:5432/x"),
    *(
        ("url password", f"{scheme}://u:", password, "@h/x")
        for scheme in ("postgresql+asyncpg", "postgresql+psycopg2", "socks5", "neo4j", "HTTPS", "ldapi", "gopher+z")
        for password in ("hunter2", "monkey", "test", "mysecretpassword", "s")
    ),
    ("url password", "redis://:", "p4$$", "@localhost"),
    ("url password", "mongodb+srv://u:", "p@ss%40", "@c.example.net/?w=1"),
    ("url password", "postgres://app:", "s3cr3t/x9", "@h/db"),
    ("url password", "amqp://u:", "a/b/c9", "@h"),
    ("url password", "git clone https://", FAKE[:20], "@git.example/a.git"),
    ("url password", "http://", HEX[:32], "@errors.example/1"),
    ("basic login", '"Basic ', "dXNlcjpodW50ZXIy", '"'),
    ("basic login", "send basic ", "YTpodW50ZXIyIQ==", " as it is"),
    ("command line password", "curl -u admin:", "S3cr3tPw1", " https://x.example"),
    ("command line password", "curl -s -X POST \\\n  --user 'admin:", "pw", "' x"),
    ("command line password", "$ curl https://x.example/?a=1 -u admin:", "123456", "\n"),
    ("command line password", 'curl -u \\"admin:', "hunter", '\\" x'),
    ("command line password", "docker login -u me -p ", "hunter", " r.example"),
    ("command line password", "podman login --password ", "hunter", "\n"),
    ("command line password", "sshpass -p '", "hunter2", "' ssh x"),
    *(
        ("command line password", f"curl {option} bob:", "monkey", " https://x.example")
        for option in ("-su", "-fsSu", "-sSLu", "-U", "--proxy-user", "-sS --user")
    ),
    ("command line password", "http -a bob:", "hunter2", " x.example"),
    ("command line password", f"curl -d '{'lorem ipsum ' * 30}' x.example -u bob:", "hunter2", ""),
    ("command line password", "curl 'https://x.example/?a=1|2' -u bob:", "hunter2", ""),
    ("command line password", 'curl -d \\"a && b\\" -u bob:', "hunter2", ""),
    ("command line password", "mysql -u root -p", "S3cretPw9", " app"),
    ("command line password", "mysqldump -uroot -p'", "monkey", "' app"),
    ("command line password", "sshpass -p", "hunter2", " ssh x"),
    ("command line password", "curl --user 'bob:", "hunter 2 pw", "' x"),
    ("command line password", 'docker login -p \\"', "correct horse", '\\" r.example'),
    ("netrc password", "machine h login u password ", "monkey", "\n"),
    ("netrc password", "machine h.example\n  login u\n  password ", "x1", ""),
    ("netrc password", "default login u password ", "a#b", "\n"),
    ("authorization header", 'curl -H "Authorization: Bearer ', FAKE[:30], '" x'),
    ("authorization header", "authorization: Basic ", "dXNlcjpwYXNzd29yZA==", "\r\n"),
    ("authorization header", '{\\"Authorization\\": \\"token ', FAKE[:20], '\\"}'),
    *(
        ("authorization header", f"Authorization: {kind} ", FAKE[:30] + "==", "")
        for kind in ("ApiKey", "Key", "Splunk", "SSWS", "GenieKey")
    ),
    ("bearer token", "as a bearer ", FAKE[:24], " in it"),
    ("bearer token", "`Bearer ", "abc." + FAKE[:24] + "~+/=", "`"),
    ("api key header", "-H 'x-api-key: ", FAKE[:20], "'"),
    ("api key header", '"X-API-Key": "', "abcdefgh", '"'),
    ("cookie", "Cookie: ", "session=abcdef0123; theme=dark", "\nHost: x"),
    ("cookie", '"set-cookie": "', "sid=s%3Aabc.def; Path=/; HttpOnly", '"'),
    ("cookie", "> Cookie: ", "a=1; session=8f7d6e5c4b3a29180000", "\n"),
    ("cookie", "curl -b '", "session=" + FAKE[:30], "' x"),
    ("cookie", "curl -s --cookie '", "a=1; session=" + FAKE[:30], "' x"),
    ("sql password", "ALTER USER bob WITH PASSWORD '", "monkey", "';"),
    ("sql password", "create role bob with password '", "hunter2", "'"),
    ("sql password", "CREATE USER 'x'@'%' IDENTIFIED BY '", "monkey", "';"),
    *(
        ("token", before, FAKE[:24], behind)
        for before, behind in (
            ('var deployToken string = "', '"'),
            ('config.setProperty("DEPLOY_TOKEN","', '")'),
            ('config.setProperty("DEPLOY_TOKEN", "', '")'),
            ("System.setProperty('DEPLOY_TOKEN', '", "');"),
            ('DEPLOY_TOKEN ?= "', '"'),
            ("DEPLOY_TOKEN ?= ", "\n"),
            ('DEPLOY_TOKEN ::= "', '"'),
            ('DEPLOY_TOKEN :::= "', '"'),
            ('DEPLOY_TOKEN += "', '"'),
            ('$deployToken .= "', '";'),
            ('$deployToken ??= "', '";'),
            ('deploy_token ||= "', '"'),
            ("<deployToken>\n    ", "\n</deployToken>"),
            ("<key>deployToken</key>\n  <string>", "</string>"),
            ("<key>deployToken</key>\n  <string>\n    ", "\n  </string>"),
            ("<name>DEPLOY_TOKEN</name><value>", "</value>"),
            ("deploy_token: |\n  ", "\n"),
            ("deploy_token: >-\n  ", "\n"),
            ("deployToken,", ",x"),
            ("you can find a deploy token ", " in it"),
        )
    ),
    ("password", 'config.setProperty("DB_PASSWORD", "', "hunter", '")'),
    ("password", "<password>\n\t", "hunter2", "\n</password>"),
    ("secret", "<secret>", "{deploy AQAAABAAA " + FAKE[:32] + "}", "</secret>"),
    ("url password", "git clone https://", FAKE[:20], ":x-oauth-basic@git.example/a.git"),
    ("url password", "https://", "abcdefgh", ":x-oauth-basic@git.example/a.git"),
    ("url password", "https://", FAKE[:20], ":@git.example/a.git"),
    (
        "teams webhook",
        "https://a.webhook.office.com/webhookb2/",
        HOOK,
        "",
    ),
    (
        "teams webhook",
        "https://outlook.office.com/webhook/",
        HOOK,
        " ok",
    ),
    ("discord token", "login('", "MTA" + FAKE[:21] + ".Gabc1_." + FAKE[:38], "')"),
    ("discord token", "", "NzE" + FAKE[:23] + ".Gabc1_." + FAKE[:27], ""),
    ("vault token", "VAULT: ", "s." + FAKE[:24], "\n"),
    ("service secret", 'adafruit = "', FAKE[:32], '"'),
    ("service secret", "TWITCH_CLIENT: ", FAKE[:30].lower(), "\n"),
    ("service secret", '"trello": "', HEX[:32], '"'),
    ("service secret", "<heroku>\n  ", "01234567-89ab-cdef-0123-456789abcdef", "\n</heroku>"),
    ("password", "PASSWORD=", "hunter2", "\n"),
    *(
        ("password", before, password, behind)
        for before, behind in (("DB_PASSWORD=", "\n"), ('{"password":"', '"}'), ('password = "', '"'))
        for password in ("monkeybusiness", "keyboardcat", "mysecretpassword", "passw", "authentic")
    ),
    ("password", "  password: ", "aHVudGVyMg==", "\n"),
    ("password", "kubectl create secret generic x --from-literal=password=", "hunterpw", " -n y"),
    ("password", "helm install x --set auth.password=", "hunterpw", " y"),
    ("password", "psql 'host=h password=", "hunterpw", " user=x'"),
    ("password", "host=h user=x password=", "hunterpw", ""),
    ("password", "a=1\nspring.datasource.password=", "hunterpw", "\nb=2"),
    ("password", "ansible_password: ", "hunterpw", "\n"),
    ("password", "ansible_ssh_pass=", "hunterpw", "\n"),
    ("password", '  ~ password = "', 'oldpw1" -> "newpw22x', '"'),
    ("password", '{"key":"DB_PASSWORD","value":"', "hunterpw", '"}'),
    ("password", '{\\"Name\\":\\"DB_PASSWORD\\",\\"Value\\":\\"', "hunterpw", '\\"}'),
    ("password", 'name = "DB_PASSWORD"\n  value = "', "hunterpw", '"'),
    ("password", "define('DB_PASSWORD', '", "hunterpw", "');"),
    ("password", 'export DB_PASSWORD="', "correct horse", '"'),
    ("password", "db:\n  password: ", "hunter2", "\n  port: 1"),
    ("password", '{"user": "me", "password": "', 'pa\\"ss', '"}'),
    ("password", '{\\"password\\": \\"', "letmein", '\\"}'),
    ("password", "Server=db;Password=", "hunter2", ";Port=1"),
    ("password", "Server=x;User Id=y;Password=", "zzz9q", ";"),
    ("password", "Data Source=x;Initial Catalog=y;Encrypt=True;Pwd=", "z", ""),
    ("password", "Password=", "two words", ";Server=x"),
    ("password", '{"DB_PASSWORD": "', "two words9", '"}'),
    ("password", '{"password": "', "correct horse battery staple", '"}'),
    ("password", '{\\"passphrase\\": \\"', "correct horse", '\\"}'),
    ("password", 'password = "', "correct horse", '"'),
    ("command line password", "docker login --password=", "hunter", " r.example"),
    ("password", "mysql --password ", "Hunter!", " -h db"),
    ("password", "mysql --password '", "hunter", "' -h db"),
    ("password", '["--password", "', "hunter2", '"]'),
    ("password", "docker run -e MYSQL_ROOT_PASSWORD=", "root", " mysql"),
    ("password", "mysql --password ", "hunter2", " -h db"),
    ("password", "POST a=1&password=", "hunter", "&b=2"),
    ("password", "<password>", "hunter2", "</password>"),
    ("password", 'const password: string = "', "hunter2", '";'),
    ("password", "- name: DB_PASSWORD\n  value: ", "hunter2", "\n"),
    ("password", 'env["DB_PASSWORD"] = "', "12345678", '"'),
    ("secret", "JWT_SECRET=", "abcdefg", ""),
    ("secret", "clientSecret: '", "shhhhh", "',"),
    ("secret", "SECRET_KEY_BASE=", FAKE[:200] + FAKE[:200], " "),
    ("token", "GITHUB_TOKEN=", "abcdef", " gh"),
    ("token", '"access_token":"', FAKE[:24], '"'),
    ("token", "https://x.example/a?token=", "abcdef", "&b=1"),
    ("token", "X-Auth-Token: ", "abcdef", "\n"),
    ("token", "tool --token '", FAKE[:12], "' go"),
    ("token", "CLOUDFLARE_API_TOKEN=", FAKE[:40], "\n"),
    ("key", "AZURE_OPENAI_KEY=", HEX[:32], "\n"),
    ("key", "export STRIPE_KEY='", FAKE[:24], "'"),
    ("secret", "JWT_SECRET=", "mysupersecret", "\n"),
    ("key", "tool --api-key ", "abc123def", " go"),
    ("key", "OPENAI_API_KEY=", "abcdef", "\n"),
    ("key", "my API key: ", "abcd1234efgh5678", " works"),
    ("key", "encryptionKey = '", "abcd1234", "'"),
    ("credentials", "GOOGLE_CREDENTIALS=", "abc123", "\n"),
    ("credentials", '"credentials": "', FAKE[:20], '"'),
    ("auth", '"auth": "', "dXNlcjpwYXNzd29yZDE=", '"'),
    ("auth", '"auth": "', "dXNlcjpwYXNzdzByZA==", '"'),
    ("auth", "//npm.example/:_auth=", "dXNlcjpwYXNz1", "\n"),
]

LIKE_SK = ("sk-SK-locale-Translations-File2", "sk-learn-something-else-VERSION-1")
KEPT = {
    "teams webhook": ["https://x.example/webhook/", "POST /webhook/github/events/of/every/repository/there/is"],
    "discord token": ["MTA", "MTAwLjEuMg.x", "NDA"],
    "service secret": [
        *(
            "twitter: https://twitter.example/someone",
            'discord_channel_id = "123456789012345678"',
            "linear algebra: 12",
        ),
        *("sentry_release: " + HEX[:40], f"heroku_app_id={HEX[:8]}-0123-0123-0123-{HEX[:12]}", 'jira = "PROJ-12345"'),
        *("spotify: a list of songs", "datadog.trace = false", "Discord: https://discord.gg/a1b2c3d4e5"),
    ],
    "anthropic key": ["sk-ant-", "sk-ant-xxx", "the prefix sk-ant-api03 is Anthropic's"],
    "langfuse secret key": ["sk-lf-...", "pk-lf-01234567-89ab-cdef-0123-456789abcdef"],
    "openai key": [
        "sk-estimator-doc-link-container-fitted",
        "disk-" + FAKE[:40],
        "task-0123456789ABCDEF0123456789",
        *LIKE_SK,
    ],
    "groq key": ["gsk_live", "task_" + FAKE[:50]],
    "github token": ["ghp_short", "github_pat_ begins it", "highp_" + FAKE[:36]],
    "gitlab token": ["glpat-x", "glpat- and more words than that follow"],
    "slack token": ["xoxb-your-token-here", "foxb-123456789012", "xoxo-1234567890ab"],
    "discord webhook": ["https://discord.com/api/webhooks/ID/TOKEN", "/webhooks/123456789012345678/" + FAKE[:68]],
    "slack webhook": ["https://hooks.slack.com/", "https://slack.com/services/T0000000/B0000000/" + FAKE[:24]],
    "aws access key id": ["ASIA PACIFIC", "AKIA0123", "xAKIA" + "IOSFODNN7EXAMPLE"],
    "aws secret key": ["secret_access_key = None", "SecretAccessKey: !Ref Key", "secret_access_key: str"],
    "google api key": ["AIza", "xAIza" + FAKE[:35]],
    "google oauth secret": ["GOCSPX-", "ya29.REDACTED", "a 1//0 b"],
    "azure signature": ["?sig=", "&sig=<signature>", "sig=" + FAKE[:43], "&sig=" + "a" * 44, "&sig=${SIG}"],
    "request signature": ["X-Amz-Signature=<signature>", "Signature=" + HEX[:63], "MySignature=" + HEX],
    "azure key": ["AccountKey=<key>", "SharedAccessKey=${KEY}"],
    "stripe key": ["sk_live_...", "risk_test_something_long_enough", "whsec_"],
    "npm token": ["npm_config_cache", "npm_lifecycle_event_of_a_script_with_a_name"],
    "pypi token": ["pypi-AgE", "pypi-server-with-a-name-that-is-long-enough-for-one"],
    "hugging face token": ["hf_hub_download(repo)", "hf_" + "x" * 9],
    "twilio key": ["SKU0123456789abcdef0123456789abcdef", "SK" + HEX[:31], "SK" + HEX[:40]],
    "sendgrid key": ["SG.", "MSG.value.other", "SG.short.short"],
    "shopify token": ["shpat_", "shpat_" + "x" * 32, "xshpat_" + HEX[:32]],
    "linear key": ["lin_api_", "lin_api_version", "plin_api_" + FAKE[:40]],
    "grafana token": ["glsa_", "glsa_service_account", "glc_eyJ"],
    "docker token": ["dckr_pat_", "dckr_pat_short"],
    "sentry token": ["sntrys_", "sntryu_short", "entryu_" + HEX],
    "figma token": ["figd_", "figd_short", "config_figd"],
    "xai key": ["xai-", "xai-org/grok-1", "xai-" + "abcdefgh" * 6],
    "perplexity key": ["pplx-", "pplx-70b-online-and-other-models-of-theirs"],
    "age key": ["AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1...", "age1" + "qpzry9x8" * 7],
    "atlassian token": ["ATATT3", "ATATT3xFfGF0"],
    "notion token": ["ntn_", "secret_" + FAKE[:42], "secret_" + FAKE[:44], "secret_" + "a" * 43],
    "supabase token": ["sbp_", "sbp_" + HEX[:39], "sbp_service_role_of_the_project_that_has_no_digits"],
    "replicate token": ["r8_", "r8_" + FAKE[:36], "ir8_" + FAKE[:37]],
    "doppler token": ["dp.pt.", "dp.pt.short", "dp.std.mean(axis=0)"],
    "fly token": ["fo1_", "fo1_short", "foo1_" + FAKE[:43], "FlyV1 fm2_"],
    "planetscale token": ["pscale_tkn_", "pscale_tkn_short", "pscale_password_of_the_database_branch"],
    "digitalocean token": ["dop_v1_", "dop_v1_0123"],
    "databricks token": ["dapi", "dapi_client", "dapi" + HEX[:31]],
    "vault token": ["hvs.", "hvs.short", "canvas.getContext_of_something()"],
    "terraform token": [".atlasv1.", "short.atlasv1." + FAKE[:67], FAKE[:14] + ".atlasv1.x"],
    "service key": [
        *("tskey-auth-x", "NRAK-", "PMAK-x-y", "lsv2_pt_...", "pcsk_", "pul-requests-are-welcome", "rubygems_version"),
        *("HRKU-x", "dt0c01.", "tvly-YOUR_API_KEY", "phx_", "tvly-this-is-where-your-own-key-goes"),
    ],
    "telegram token": ["12:AA" + FAKE[:33], "12345678:AAB", "12345678:BB" + FAKE[:33]],
    "jwt": ["eyJ", "base64,eyJ" + FAKE[:80] + "=", "eyJhbGciOiJIUzI1NiJ9.x.y"],
    "private key": [
        f"-----BEGIN {PRIVATE}",
        f"('-----BEGIN {PRIVATE}', '-----END {PRIVATE}')",
        f"-----BEGIN CERTIFICATE-----\n{LINE}-----END CERTIFICATE-----",
        f"look for\nwords\nbefore\n-----END {PRIVATE}",
        f"-----BEGIN PUBLIC KEY-----\n{LINE}-----END PUBLIC KEY-----",
    ],
    "encoded credentials": [
        "certificate-authority-data: " + encoded(f"-----BEGIN CERTIFICATE-----\n{LINE}"),
        "key: " + encoded(f"-----BEGIN PUBLIC KEY-----\n{LINE}"),
        "eyJhdXRocyI6",
    ],
    "url password": [
        *("http://localhost:3000/@scope/pkg", "ssh://git@github.com:22/a", "docker://alpine:3.18@sha256:0123"),
        *("postgres://user:${PASS}@host/db", "postgres://user:password@host/db", "https://<user>:<pass>@host"),
        *("http://localhost:8080/a1/b@c", "http://localhost:PORT/v1/@x", "http://host:${PORT}/a1/b@c"),
        *("https://some-user-name-2024@git.example/a", "https://myorganisation20245@dev.example/b", "https://me@h"),
    ],
    "basic login": ["Basic authentication", "Basic usage", "BASIC 12345678", "a basic dXNlcm5hbWU= of things"],
    "command line password": [
        *("docker run -u 1000:1000 x", "docker exec --user www-data:www-data x ls", "curl -u $USER:$PASS x"),
        *("curl -u user:password x", "curl -u name x", "rsync -u a1:b2/c3 d", "date -u +%H:%M:%S", "mkdir -p a1/b2"),
        *("docker login -p $PASS", "docker login --password-stdin", "docker run -p 8080:80 x", "curl x | sort -u a:b1"),
        *(
            "docker run --name mysql -p3306:3306 x",
            "mysql -p app",
            "mysql -p$PASS app",
            "mkdir -pv a1",
            "curl -U $A:$B x",
        ),
        "curl -H 'a: b' x && id -u a:b1",
    ],
    "netrc password": [
        *("machine h login u password $PASS", "you can login using password authentication", "machine h login u"),
        "default login and password handling",
    ],
    "authorization header": [
        "Authorization: Bearer <token>",
        "`Authorization: Bearer ${token}`",
        "authorization: basic auth",
    ],
    "bearer token": ["bearer token authentication", "Bearer $TOKEN", "the bearer of-this-long-message is king"],
    "api key header": ["x-api-key: ${API_KEY}", '"x-api-key": settings.api_key,', "x-api-key: YOUR_API_KEY"],
    "cookie": [
        "cookie = document.cookie",
        "Set-Cookie: header",
        "Cookie: ${cookie}",
        "cookie: a=<value>",
        "curl -b jar.txt x",
    ],
    "sql password": [
        "PASSWORD '${PASS}'",
        "IDENTIFIED BY '<password>'",
        "with password 'password'",
        "as identified by 'name1'",
    ],
    "password": [
        *(
            "password = get_password()",
            "password: string;",
            "password=None",
            "PASSWORD=",
            'PASSWORD=""',
            "PASSWORD=$PASS",
        ),
        *('PASSWORD="${PASS}"', "password: ********", '"password": "Enter your password"', "password=password,"),
        *(
            'type="password" name="x"',
            "password=user.password",
            '"password": {"type": "string"}',
            "PASSWORD_MIN_LENGTH=12",
        ),
        *(
            "PWD=/home/me/project",
            "/etc/passwd: root1234",
            "password: !Ref DbPassword",
            "password = getpass('Password: ')",
        ),
        *("Server=x;Password=${PASS};", "Server=x;Password=<password>;", "Server=x;Password=;Port=1", "password=e;n=t"),
        *('"password": "must be at least 8 characters long"', '"password": "is too short"', '"password": "test"'),
        *('"password": "Choose one you do not use elsewhere."', "password: 'Enter it twice'", '"password": ""'),
        *(
            "the --password option",
            "--password VALUE",
            '--password "$PASS"',
            '("--password", "-p")',
            "--password <pw1>",
        ),
        *('f("--password " + pw1 + " x")', 'ask("Password: ") + f("b c")', "a password Reset1 is"),
        *('password = "your_password"', "DB_PASSWORD=db_password", '"password": "Password"', "PASSWORD=self.password"),
        *('"password": "Mot de passe"', '"password": "Reset password"', '"password": "required|string|min:8"'),
        *('"password": "Enter"', "this.state.password=other", "connect(host=h, password=pw, user=u)"),
        *("password=%s", "if password == 'abcdef':", 'password: "{{ password }}"', "password: os.environ['PASS1234']"),
    ],
    "secret": [
        *("secret: str", "secret = secrets.token_hex(16)", "JWT_SECRET=${{ secrets.JWT }}", "secretName: my-secret1"),
        *("secret: projects/123/secrets/NAME", "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:a1"),
        *("Secret: use the v2 API", "secret=settings.SECRET_KEY", "secret: !vault |", 'SECRET = "your-secret-1"'),
    ],
    "token": [
        *("token: Token", "max_tokens=4096", "token_count: 12", "tokens: 120", "TOKENIZERS_PARALLELISM=false"),
        *("Access Token: T1134.001", "token: CVE-2024-12345", "--token TOKEN1", "the --token flag"),
        *("getToken()", "token: str | None = None", "tokens.map(token => token.text1)", "id-token: write"),
        *('token="[CLS]"', 'tokenType: "Bearer"', '"next_page_token": "abc12345"', "const token = await getToken();"),
        *(
            "token: process.env.X1",
            'ACCESS_TOKEN = "access_token"',
            "TOKEN=$(cat a1)",
            "broken: abc123def",
            "TOKEN=true",
        ),
        *("token: 'color-primary-500'", "Unexpected token: 'abcdef12'", "token: 2024-01-01T00:00:00Z"),
    ],
    "key": [
        *(
            "api_key = os.getenv('API_KEY')",
            "apiKey: process.env.API_KEY,",
            "API_KEY=<your key>",
            "API_KEY=your_api_key_1",
        ),
        *(
            '"key": "abcd1234efgh"',
            "primary_key=True",
            "publicKey: 'abcd1234'",
            "cache_key = f'user:{id}'",
            "API_KEY=xxxxxxxx",
        ),
        *(
            'session_key = "agent:main:1"',
            "CACHE_KEY=" + HEX[:32],
            "STRIPE_PUBLIC_KEY=" + FAKE[:32],
            "S3_KEY=a-b-c-2024",
        ),
        *("SSH_PRIVATE_KEY=/home/me/.ssh/id_rsa", 'api_key: "sk-...abc123"'),
    ],
    "told": [
        *('t("password", "Password")', 'expect("token", "to be set")', "<password>not the same as before</password>"),
        *("<token>\n</token>", "a token 550e8400-e29b-41d4-a716-446655440000 of", "token " + HEX[:40] + " of a commit"),
        *("(token,identifier_of_it)", "password,username,email", "password: >\n  the words of a paragraph"),
        *("https://registry.example:x@", 'setItem("token", "none")', "token ?= $(TOKEN)", "the token string = it"),
    ],
    "credentials": [
        '"credentials": "T1098.001"',
        "credentials: 'include'",
        "GOOGLE_APPLICATION_CREDENTIALS=/run/gcp.json",
        "_credentials = load()",
    ],
    "auth": ["author: John Doe 2nd", '"auth": true', "MLFLOW_AUTH=kubernetes", "'auth0': 'abc12345'"],
}
# The tokens of the table have a test of their own.
NAMES = [pattern.name for pattern in PATTERNS[len(TOKEN_FACTS) :]]


@pytest.mark.parametrize(("name", "before", "secret", "behind"), MASKED)
def test_a_secret_becomes_its_marker_and_nothing_else_changes(name: str, before: str, secret: str, behind: str) -> None:
    """At the beginning of the text and of a line."""
    redactor = Redactor()
    for shift in ("", "\n"):
        assert redactor.text(shift + before + secret + behind) == f"{shift}{before}[masked: {name}]{behind}"
    assert redactor.counts == Counter({name: 2})


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in KEPT.items() for text in texts])
@pytest.mark.parametrize("around", ["{}", "say: {}\nso", '"{}"', "  {},"])
def test_what_only_looks_like_a_secret_stays(name: str, text: str, around: str) -> None:
    """The same object comes back."""
    whole = around.replace("{}", text)
    assert Redactor().text(whole) is whole, name


def test_every_pattern_has_two_examples_of_either_kind() -> None:
    masked = Counter(name for name, *_ in MASKED)
    assert {name: (masked[name] >= 2, len(KEPT[name]) >= 2) for name in NAMES} == dict.fromkeys(NAMES, (True, True))
    assert set(masked) | set(KEPT) <= {"told", *(pattern.name for pattern in PATTERNS)}


def test_several_secrets_are_counted_by_name() -> None:
    redactor = Redactor()
    token = "ghp_" + FAKE[:36]
    text = f"TOKEN={token} and {token}\nPASSWORD=hunter2"
    assert redactor.text(text) == (
        "TOKEN=[masked: github token] and [masked: github token]\nPASSWORD=[masked: password]"
    )
    assert redactor.counts == Counter({"github token": 2, "password": 1})


def test_a_secret_in_a_secret_is_masked_with_it() -> None:
    """The outer one's place, the name of the pattern that comes first."""
    assert Redactor().text(f"DB_PASSWORD='a ghp_{FAKE[:36]} b'") == "DB_PASSWORD='[masked: github token]'"


@pytest.mark.parametrize("secret", ["Zq7Lw2Xk", "hunter2hunter", HEX[:32], "p4ss+w0rd/x", "0/1:" + HEX[6:16]])
def test_further_copies_of_a_masked_value_are_masked(secret: str) -> None:
    """In the same text, before and behind, in other texts and in keys, under the same name."""
    redactor = Redactor()
    assert redactor.text(f"{secret} DB_PASSWORD={secret}\n({secret})") == (
        "[masked: password] DB_PASSWORD=[masked: password]\n([masked: password])"
    )
    assert redactor.value([secret, {"x": f"is {secret}", secret: 1}]) == [
        "[masked: password]",
        {"x": "is [masked: password]", "[masked: password]": 1},
    ]
    assert redactor.counts == Counter({"password": 6})


def test_a_placeholder_that_was_masked_is_not_looked_for() -> None:
    """It stands for a secret, and also in the programs that put it there."""
    redactor = Redactor()
    assert redactor.text("cookie: _key=REDACTED_PHOENIX_SESSION\n") == "cookie: [masked: cookie]\n"
    assert redactor.text("s/SFMy.*/REDACTED_PHOENIX_SESSION/g") == "s/SFMy.*/REDACTED_PHOENIX_SESSION/g"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("lookerToken=zkzparjagwrnpuauqgeh", "zkzparjagwrnpuauqgeh"),
        ('SUMO_TOKEN: "sudlAxBwaOgrcI"', "sudlAxBwaOgrcI"),
        ('sumo = "sumXFhwKTrwNm7"', "sumXFhwKTrwNm7"),
        ('asana = "0045737027156036"', "0045737027156036"),
        ("discord_client_id: 123456789012345678", "123456789012345678"),
        ('var asanaToken: string = "0045737027156036"', "0045737027156036"),
        ('<entry name="asanaToken" value="0045737027156036" />', "0045737027156036"),
        ("https://3890729e:6d54398f@gems.contribsys.com/", "3890729e:6d54398f"),
        (f"authToken={FAKE[:20]}_8a9b1c2d3e4f5g6h.soB", f"{FAKE[:20]}_8a9b1c2d3e4f5g6h.soB"),
        ("s.m4dradnazgze8ja43ck6twb9", "s.m4dradnazgze8ja43ck6twb9"),
        ("a\\ns.m4dradnazgze8ja43ck6twb9\\n", "s.m4dradnazgze8ja43ck6twb9"),
        (f"\\nfo1_{FAKE[:43]}\\n", FAKE[:43]),
        ("secret_token: cpw=K1fUDbOMgMt2h34uxmdJu0Vj", "cpw=K1fUDbOMgMt2h34uxmdJu0Vj"),
    ],
)
def test_secrets_recognized_by_their_context(text: str, secret: str) -> None:
    before, behind = text.split(secret)
    assert re.fullmatch(rf"{re.escape(before)}\[masked: [a-z ]+\]{re.escape(behind)}", Redactor().text(text))


@pytest.mark.parametrize(
    "text",
    [
        *("discord_channel_id: 123456789012345678", "asana_project: 0045737027156036", "see discord: 12"),
        *("s.substring", "s.abcdefghijklmnopqrstuvwx", "os.m4dradnazgze8ja43ck6twb9"),
        *("lookerSecretName: lookerCredentialStor", 'jira_token_store = "confluencetokenstorehere"'),
    ],
)
def test_names_and_numbers_beside_a_service_name_are_no_secrets(text: str) -> None:
    assert Redactor().text(text) is text


@pytest.mark.parametrize("secret", ["Zq7!w2#k&9p/x+Y=", 'p4ss"w0rd\\x9', FAKE[:20], f"{HEX[:32]}", "cdfghjklmnbvcxzq"])
def test_copies_are_masked_however_they_are_encoded(secret: str) -> None:
    escaped = json.dumps(secret)[1:-1]
    basic = [b64encode(f"{user}:{secret}".encode()).decode() for user in ("", "a", "ab", "abc")]
    forms = [secret, f"'{secret}'", escaped, json.dumps(escaped)[1:-1], quote(secret, safe=""), quote_plus(secret)]
    forms += [b64encode(secret.encode()).decode(), urlsafe_b64encode(secret.encode()).decode()]
    redactor = Redactor()
    redactor.value({"password": secret})
    for form in (*forms, *basic):
        masked = redactor.text(f"see {form} there")
        assert form.strip("'=")[-8:] not in masked
        assert masked.startswith("see ")
        assert masked.endswith(" there")


@pytest.mark.parametrize(
    ("told", "copy"),
    [
        ("api_key='abcdefghijklmnopqrst1234'", "abcdefghijklmnopqrst1234"),
        ("asana_token=0045737027156036", "0045737027156036"),
        ("airtable_key = keyAbcDefGhiJklMn", "keyAbcDefGhiJklMn"),
        ("https://3890729e:6d54398f@gems.contribsys.com/", "6d54398f"),
        ("Cookie: a=1; session=Zq7Lw2Xk9Pv4", "Zq7Lw2Xk9Pv4"),
        (f"-----BEGIN {PRIVATE}\n{LINE}{LINE[::-1].strip()}\n-----END {PRIVATE}", LINE.strip()),
    ],
)
def test_copies_of_a_part_of_what_was_masked_are_masked(told: str, copy: str) -> None:
    masked = Redactor().text(f"{copy} is in\n{told}\nand {copy}")
    assert copy not in masked


def test_times_and_names_beside_a_secret_are_not_masked_elsewhere() -> None:
    redactor = Redactor()
    redactor.text(f"AKIA{'A' * 16}\t2024-01-01T00:00:00+00:00\t{FAKE[:40]}")
    redactor.text("Cookie: lang=en-US; theme=dark; session=Zq7Lw2Xk9Pv4")
    text = "at 2024-01-01T00:00:00+00:00 in en-US, dark"
    assert redactor.text(text) is text


def test_secrets_within_each_other_are_found_once() -> None:
    """Hundreds of lengths of the same: each place of a copy is found a single time."""
    copies = Copies()
    for length in range(20, 220):
        copies.add(("a1b" * 100)[:length], 0)
    assert len(copies.spans("a1b" * 10_000)) < 1000


def test_copies_before_the_key_are_masked() -> None:
    value: Any = [{"text": "it was Zq7Lw2Xk9"}, {"password": "Zq7Lw2Xk9"}, "Zq7Lw2Xk9"]
    assert Redactor().value(value) == [
        {"text": "it was [masked: password]"},
        {"password": "[masked: password]"},
        "[masked: password]",
    ]


@pytest.mark.parametrize(
    "word", ["postgres", "test", "hunter2", "changeit", "release-1.2.3", "my-app-2024", "12345678"]
)
def test_words_and_numbers_as_passwords_are_not_masked_elsewhere(word: str) -> None:
    redactor = Redactor()
    redactor.text(f"DB_PASSWORD={word}\n")
    redactor.value({"password": word})
    text = f"the {word} of it"
    assert redactor.text(text) is text


BODY = st.text("abcXYZ0189", min_size=95, max_size=120)
TOKENS = st.one_of(
    *(
        BODY.map(prefix.__add__)
        for prefix in ("sk-ant-", "sk-lf-", "sk-proj-", "ghp_", "github_pat_", "glpat-", "AIza")
    ),
    *(
        BODY.map(prefix.__add__)
        for prefix in ("ya29.", "GOCSPX-", "sk_live_", "npm_", "pypi-AgE", "hf_", "hvs.", "gsk_")
    ),
    st.tuples(BODY, BODY).map(lambda bodies: f"eyJ{bodies[0]}.eyJ{bodies[1]}.x"),
    st.text("ABCXYZ0189", min_size=16, max_size=16).map("AKIA".__add__),
    BODY.map(lambda body: f"-----BEGIN {PRIVATE}\n{body}\n-----END {PRIVATE}"),
)
BORDERS = st.sampled_from(
    ["", " ", "\n", "\\n", "\\t", '"', "'", "=", ":", "(", "%3D", "\x1b[1m", "\x1b[0;32m", "\u2192", "é"]
)
ANY_TEXT = st.text(st.characters(), max_size=60)


@given(ANY_TEXT, BORDERS.filter(bool), TOKENS, BORDERS, ANY_TEXT)
def test_no_token_survives_wherever_it_stands(before: str, left: str, token: str, right: str, behind: str) -> None:
    assert token not in Redactor().text(before + left + token + right + behind)


@given(
    before=ANY_TEXT.map(lambda text: text + "\n"),
    name=st.sampled_from(["DB_PASSWORD", "SECRET", "NPM_TOKEN", "API_KEY", "STRIPE_ACCESS_KEY", "JWT_PRIVATE_KEY"]),
    form=st.sampled_from(["{}={}", "export {}='{}'", '{}: "{}"', '"{}": "{}"', '\\"{}\\": \\"{}\\"', "{}: {}"]),
    value=st.from_regex(r"[bcYZ][189][bcdfgYZ0-9/+]{8,40}", fullmatch=True),
    behind=ANY_TEXT.map(lambda text: "\n" + text),
)
def test_no_value_of_an_env_file_survives(before: str, name: str, form: str, value: str, behind: str) -> None:
    assert value not in Redactor().text(before + form.format(name, value) + behind)


PIECES = st.one_of(
    st.text(st.characters(), max_size=5),
    st.sampled_from(
        ["\\", '"', "'", "=", ":", " ", "\n", "://", "@", "-----", "a1", "x" * 30, FAKE[:40], "[masked: token]"]
    ),
    st.sampled_from(
        ["password", "TOKEN", "apiKey", "Cookie", "Authorization", "Bearer ", "-api-key", "_auth", '"auth', "value"]
    ),
    st.sampled_from(
        ["sk-ant-", "ghp_", "eyJ", "AKIA", "SG.", "xoxb-1", f"-----BEGIN {PRIVATE}", "0:AA", "AccountKey=", "[masked: "]
    ),
)
MIXED = st.lists(PIECES, max_size=14).map("".join)


@given(MIXED)
@example("\ud800 password=\udfff1234567")
def test_masking_masked_text_changes_nothing(text: str) -> None:
    masked = Redactor().text(text)
    assert Redactor().text(masked) is masked


@given(MIXED, st.sampled_from(["[a-z]+", ".+", r"\]", "masked", r"a(?P<secret>.)", r"\] ?\w+"]))
def test_own_patterns_mask_nothing_twice(text: str, own: str) -> None:
    masked = Redactor([own]).text(text)
    assert Redactor([own]).text(masked) is masked


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | MIXED,
    lambda items: st.lists(items, max_size=3) | st.dictionaries(MIXED, items, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_a_masked_value_has_nothing_left_to_mask(value: Any) -> None:
    masked = Redactor().value(value)
    assert Redactor().value(masked) == masked


def test_keys_that_say_secret_mask_their_texts() -> None:
    """With the same exceptions as in text; numbers, booleans and None stay."""
    redactor = Redactor()
    value: Any = {
        "user": "hunter2",
        "password": "hunter2",
        "clientSecret": "shhh",
        "headers": {"X-Api-Key": ["abcd1234"], "Authorization": "Basic dXNlcjpwYXNz", "Cookie": "sid=abcdef"},
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "DB_HOST", "value": "hunter2"}],
        "tags": [{"Key": "DB_PASSWORD", "Value": "hunter2"}],
        "kept": {
            "password": "$PASS",
            "token": "string",
            "secret": None,
            "max_tokens": 4096,
            "api_key": True,
            "pass": "",
        },
        "passwordHint": "hunter2",
        "ghp_" + FAKE[:36]: 1,
        "gho_" + FAKE[:36]: 2,
        "token": "see ghp_" + FAKE[:36],
    }
    assert redactor.value(value) == {
        "user": "hunter2",
        "password": "[masked: password]",
        "clientSecret": "[masked: secret]",
        "headers": {
            "X-Api-Key": ["[masked: key]"],
            "Authorization": "Basic [masked: authorization header]",
            "Cookie": "[masked: cookie]",
        },
        "env": [{"name": "DB_PASSWORD", "value": "[masked: password]"}, {"name": "DB_HOST", "value": "hunter2"}],
        "tags": [{"Key": "DB_PASSWORD", "Value": "[masked: password]"}],
        "kept": {
            "password": "$PASS",
            "token": "string",
            "secret": None,
            "max_tokens": 4096,
            "api_key": True,
            "pass": "",
        },
        "passwordHint": "hunter2",
        "[masked: github token]": 1,
        "[masked: github token]*": 2,
        "token": "see [masked: github token]",
    }
    assert redactor.counts == Counter(
        {"password": 3, "secret": 1, "key": 1, "authorization header": 1, "cookie": 1, "github token": 3}
    )


@pytest.mark.parametrize("key", ["password", "DB_PASSWORD", "userPasswd", "passphrase"])
def test_under_a_password_key_any_text_is_one_but_placeholders_and_prose(key: str) -> None:
    """Up to six words and a hundred characters; `pass` and `pwd` mean other things too."""
    for text in ("two words9", "correct horse", "one two three four five six", "a", "1234", "xyz" * 33):
        assert Redactor().value({key: text}) == {key: "[masked: password]"}, text
    prose = ("one two three four five six seven", "xyz" * 34, "Enter it twice", "is too short", "Was it you, or they?")
    for text in ("", "***", "xxx", "none", "<pw>", "${PW}", "/run/secrets/pw", *prose):
        value: Any = {key: text, "pass": "two words9", "pwd": "a"}
        assert Redactor().value(value) is value, text


def test_what_has_no_secret_is_the_same_object() -> None:
    """Also the parts of a value that has one elsewhere."""
    clean: Any = {"role": "user", "content": [{"type": "text", "text": "hello"}, 1, None]}
    assert Redactor().value(clean) is clean
    value: Any = [clean, {"password": "hunter2"}]
    masked: Any = Redactor().value(value)
    assert masked == [clean, {"password": "[masked: password]"}]
    assert masked[0] is clean
    assert value[1] == {"password": "hunter2"}


def test_depth_is_no_limit() -> None:
    deep: Any = "PASSWORD=hunter2"
    for _ in range(5000):
        deep = {"a": [deep]}
    masked: Any = Redactor().value(deep)
    for _ in range(5000):
        masked = masked["a"][0]
    assert masked == "PASSWORD=[masked: password]"


def test_own_patterns_are_masked_as_a_whole_or_by_their_group() -> None:
    redactor = Redactor([r"EMP-\d{4}", r"badge (?P<secret>\d+)", r"(?P<secret>x)?y"])
    assert redactor.text("EMP-1234 has badge 99, y") == "[masked: own pattern] has badge [masked: own pattern], y"
    assert redactor.value({"EMP-1234": ["a", "EMP-5678"]}) == {"[masked: own pattern]": ["a", "[masked: own pattern]"]}
    assert redactor.counts == Counter({"own pattern": 4})


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "a(",
            r"mask: expression 2 is not a regular expression: missing \), unterminated subpattern at position 1",
        ),
        ("x*", r"mask: expression 2 matches empty text"),
        ("(?=a)|", r"mask: expression 2 matches empty text"),
    ],
)
def test_a_wrong_own_pattern_is_named_with_what_is_wrong(expression: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Redactor(["fine", expression])


RUNS = ["a", "=", '"', ":", "\\", "-", "_", " ", "ab+/", FAKE, "é", "\ud800", "[masked: "]
HALVES = [
    *("token=", 'token="', "token='\"`", "token: ", "TOKEN=$", 'password="a ', "password:\\\\\\", "api_key:", "s_key="),
    *("sk-", "sk-ant-", "-sk-ant-x", "-eyJ", "eyJaaaaaaaaaa.", "\\neyJaaaaaaaaaaaaaaa", "ghp_aaaa", "SG." + "a" * 20),
    *(
        "-----BEGIN ",
        f"-----BEGIN {PRIVATE}",
        f"-----BEGIN {PRIVATE}\n{LINE}",
        "a://b:",
        "a://b:c",
        "cookie: a=",
        "0:AA",
    ),
    *("-pwd=a;", "=a;-pwd", "etsy=", "twitter: ", 'Key=password="-pwd', "<token>a ", "token,a1", "0Q~", ".ey", "t1."),
    *("a://b:c/", "https://" + FAKE[:20], "curl -u a:", "curl -u a:b|", " -p a", "Basic aaaaaaaa", "?sig=" + FAKE[:39]),
    *(
        "machine a login b password ",
        "Server=a;Password=$",
        "Server=a;",
        "Password=a b;",
        '"password": "a b c d e f g h ',
    ),
    *(
        "x-api-key:$a",
        "authorization:bearer aaaaaaa ",
        '"auth": "a ',
        "--token a1aaaa ",
        "<token>aaaa",
        "name: token\n value: ",
    ),
]


CHAINS = ["sntryu_" + HEX[:40], "curl -u a:@h {zq9", "curl -u a:=docker login -p A_TOKEN"]


@pytest.mark.parametrize("piece", CHAINS)
def test_a_text_that_shows_one_secret_after_the_other_is_read_a_few_times_only(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of them comes through."""
    read: list[int] = []

    def counted(text: str, budget: Budget) -> list[Match]:
        read.append(len(text))
        return secrets(text, budget)

    monkeypatch.setattr("cc_trace.privacy.redactor.secrets", counted)
    text = piece * 500
    masked = Redactor().text(text)
    assert len(read) <= 7
    assert sum(read) <= 20 * len(text)
    assert secrets(masked) == []
    assert HEX[:40] not in masked


@pytest.mark.parametrize("piece", ["-pwd=a;", "etsy=", "Key=a", "token=a;", "=a;-pwd", " -p :", " -u a:", "Mistral:"])
def test_a_text_that_is_all_hints_is_read_a_few_times_at_most(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read for each hint together is in proportion to the text: twice as long, twice as much."""

    def read(size: int) -> int:
        lengths: list[int] = []

        def counted(name: str, match: re.Match[str]) -> tuple[int, int] | None:
            lengths.append(match.end() - match.start())
            return checked(name, match)

        monkeypatch.setattr(scan, "_span_in_match", counted)
        Redactor().text(piece * (size // len(piece)))
        return sum(lengths)

    checked = scan._span_in_match
    assert read(40_000) <= 12 * 40_000
    assert read(80_000) <= 12 * 80_000


@pytest.fixture(scope="module")
def slow_pieces() -> tuple[str, ...]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from worst import WORST  # noqa: PLC0415 -- of the benchmarks, which are no package
    finally:
        sys.path.pop(0)
    return WORST


def test_slow_text_has_few_matches_to_check(slow_pieces: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is read: to judge one match takes some ten microseconds."""
    judged: list[int] = []

    def counted(name: str, match: re.Match[str]) -> tuple[int, int] | None:
        judged.append(match.end() - match.start())
        return checked(name, match)

    checked = scan._span_in_match
    monkeypatch.setattr(scan, "_span_in_match", counted)
    for piece in slow_pieces:
        text = piece * (40_000 // len(piece))
        judged.clear()
        Redactor().text(text)
        assert len(judged) <= len(text) / 10, piece
        assert sum(judged) <= 3 * len(text), piece


@pytest.mark.parametrize(
    "piece",
    [
        *('{"Key":"Name","Value":"web"},', '{"token":"a","id":1},', '"saveKey":"Save",', "- key: app\n  value: web\n"),
        *(
            "mkdir -p a/b/c && ",
            "max_tokens: 5, ",
            "const x = this.props.token;\n",
            "  username: string;\n  password: string;\n  email: string;\n",
        ),
    ],
)
def test_a_dense_text_without_secrets_is_left_alone(piece: str) -> None:
    text = piece * 2000
    assert Redactor().text(text) is text


def seconds(piece: str, size: int) -> float:
    """What masking a text of that size takes, made from the piece again and again."""
    text = (piece * (size // len(piece) + 1))[:size]
    began = time.process_time()
    Redactor().text(text)
    return time.process_time() - began


@pytest.mark.parametrize("piece", RUNS)
def test_repetitive_megabyte_is_fast(piece: str) -> None:
    """Prose takes some 10 ms."""
    clean = min(seconds("The quick brown fox jumps over the lazy dog. ", 1_000_000) for _ in range(3))
    assert seconds(piece, 1_000_000) < 50 * clean


@pytest.mark.parametrize("piece", HALVES + CHAINS)
def test_time_grows_with_halves_of_secrets_no_faster_than_the_text(piece: str) -> None:
    """Four times the text may take eight times as long; what goes with the square takes sixteen times."""
    seconds(piece, 10_000)
    assert min(seconds(piece, 120_000) for _ in range(2)) < 8 * max(seconds(piece, 30_000), 0.01)


@pytest.mark.skipif(not corpus(), reason="the public transcripts are not at hand")
@pytest.mark.parametrize("path", corpus(), ids=label)
def test_public_transcripts_are_masked_once_and_for_all(path: Any) -> None:
    redactor = Redactor()
    for line in path.read_bytes().splitlines():
        text = line.decode("utf-8", "surrogateescape")
        masked = redactor.text(text)
        assert Redactor().text(masked) is masked
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        once = redactor.value(value)
        assert Redactor().value(once) is once


VAULT = "s.a1B2c3D4e5F6g7H8i9J0k1L2"


@pytest.mark.parametrize("at", range(3))
def test_texts_that_are_searched_together_are_masked_as_each_alone(at: int) -> None:
    """Also where a text begins with its secret, and next to others that only together look like one."""
    texts = ["DB_PASSWORD=", "Zq7Lw2Xk9Pv4", "fine"]
    texts.insert(at, VAULT)
    expected = ["[masked: vault token]" if text == VAULT else text for text in texts]
    assert Redactor().value([*texts]) == expected
    assert [Redactor().value(text) for text in texts] == expected


def test_what_may_start_a_text_is_also_told_by_a_line_break_before_it() -> None:
    """So the start of each text is seen where many are searched as one."""
    starting = [pattern for pattern in PATTERNS if pattern.at_start]
    assert starting
    assert all(f"\n{pattern.at_start}" in pattern.hints for pattern in starting)


def test_a_copy_across_two_texts_hides_none_that_begins_in_the_second() -> None:
    """A masked value may hold a line break, as one stands between texts that are searched as one."""
    redactor = Redactor(())
    second = "Zq7Lw2Xk9Pv4"
    redactor.value({"password": f"aB3dE5fG7\n{second[:6]}"})
    redactor.value({"password": second})
    assert redactor.value(["aB3dE5fG7", f"{second} it is"]) == ["[masked: password]", "[masked: password] it is"]


def test_only_so_many_clean_texts_are_remembered() -> None:
    redactor = Redactor()
    redactor.value([f"text {number}" for number in range(10_000)])
    assert len(redactor._clean) == 4096


def test_the_automaton_built_later_finds_the_same_hints() -> None:
    """The first one is quick to build, the second, after some megabytes, quick to search with."""
    program = """
from cc_trace.privacy.patterns import PATTERNS
from cc_trace.privacy.scan import hint_spans
text = " ".join(hint for pattern in PATTERNS for hint in pattern.hints)
first = hint_spans(text)
assert hint_spans("x" * 3_000_000) == []
assert len(first) > 1000 and hint_spans(text) == first
"""
    subprocess.run([sys.executable, "-c", program], check=True)
