"""How many of the tokens that a public rule set describes are masked, rule by rule.

Rule: the rule set is read where it lies, beside the project, and nothing of it is kept. Tokens are made from its
expressions by a generator with a fixed seed, so two runs on the same code give the same figures.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from string import printable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from table import Row

from cc_trace.privacy.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from table import Effort

RULES: Final = Path(__file__).resolve().parent.parent.parent / "shared" / "secrets" / "gitleaks-rules.toml"
Kind: TypeAlias = Literal["bare", "keyed"]
# At least so many rules of each kind are to be found, and a rule is where so many of its samples are hidden.
LIMITS: Final[dict[Kind, float]] = {"bare": 0.95, "keyed": 0.90}
_FOUND: Final = 0.95
_TOKENS: Final = 12
_SEED: Final = 7
_MOST_REPEATS: Final = 40  # beyond the least, where an expression has no limit
_TAIL: Final = 10  # characters: if they can be read, the token is not hidden

# What stands around a token that says itself what it is.
_AROUND: Final = ("{}", "use {} now", 'x = "{}"', "it is '{}'\n", "- {}\n", '{{"a": "{}"}}', "(`{}`)", "\\n{}\\n")
# How a service's secret is assigned; the name is the service's, with what people put behind it.
_ASSIGNED: Final = (
    '{}Token="{}"',
    '{}Token = "{}"',
    "{}Token={}",
    "{}Token = {}",
    '{{\n    "{}_token": "{}"\n}}',
    '{{\n    \\"{}_token\\": \\"{}\\"\n}}',
    "<{0}Token>{1}</{0}Token>",
    "<{0}Token>\n    {1}\n</{0}Token>",
    "<key>{}_token</key>\n<string>{}</string>",
    '<entry name="{}Token" value="{}" />',
    "{}_token: {}",
    "{}_token: '{}'",
    '{}_token: "{}"',
    "{}_token: |\n  {}",
    "{}_token: >\n  {}",
    'string {}Token = "{}";',
    'var {}Token string = "{}"',
    '{}Token := "{}"',
    "{}Token := `{}`",
    'var {}Token: string = "{}"',
    '${}Token .= "{}"',
    '${}Token ??= "{}"',
    "{}Token = '{}'",
    "{}Token,{},",
    '  "{}Token" => "{}"',
    '{}_TOKEN ::= "{}"',
    '{}_TOKEN :::= "{}"',
    '{}_TOKEN ?= "{}"',
    '{}_TOKEN += "{}"',
    'config.setProperty("{}_TOKEN", "{}")',
    'config.setProperty("{}_TOKEN","{}")',
    "export {}_API_KEY={}",
    '{}_api_token = "{}"',
    '{} = "{}"',
    "{}: {}\n",
)
_KEYED: Final = re.compile(r"\{0,50\}\?(?:\(\?i:)?(?:\[\\w\.-\]\{0,50\}\?)?\(\?:(?P<names>.*?)\)\(\?:\[ ")


@dataclass(frozen=True, slots=True)
class Recall:
    """How many samples of one rule were hidden."""

    rule: str
    kind: Kind
    hidden: int
    samples: int

    @property
    def found(self) -> bool:
        """Tell whether the rule counts as found."""
        return self.hidden >= _FOUND * self.samples


def rows(_: Effort) -> list[Row]:
    """Return the share of rules that are found, of each kind; print the table of all rules."""
    if not RULES.is_file():
        return [Row("masking: recall by a public rule set", "the rule set is not beside the project")]
    measured = recalls(RULES)
    print(rendered_rules(measured), file=sys.stderr)
    return [_row(kind, [each for each in measured if each.kind == kind]) for kind in LIMITS]


def share(measured: Iterable[Recall], kind: Kind) -> float:
    """Return the share of rules of that kind that are found."""
    found = [each.found for each in measured if each.kind == kind]
    return sum(found) / len(found)


def rendered_rules(measured: Iterable[Recall]) -> str:
    """Return a line for each rule, in Markdown."""
    lines = (f"| {each.rule} | {each.kind} | {each.hidden / each.samples:.0%} |" for each in measured)
    return "\n".join(("| rule | kind | samples hidden |", "|---|---|---|", *lines))


def recalls(path: Path) -> list[Recall]:
    """Measure every rule of the file that describes a token."""
    rules = tomllib.loads(path.read_text(encoding="utf-8"))["rules"]
    measured = [_recall(rule["id"], rule["regex"]) for rule in rules if "regex" in rule]
    return [each for each in measured if each is not None]


def samples(path: Path, count: int) -> list[str]:
    """Return so many texts that each rule of the file matches."""
    rules = tomllib.loads(path.read_text(encoding="utf-8"))["rules"]
    random = Random(_SEED)
    trees = [parser.parse(_as_python(rule["regex"])) for rule in rules if "regex" in rule]
    return [_made(tree, random) for tree in trees for _ in range(count)]


def _row(kind: Kind, measured: Sequence[Recall]) -> Row:
    found, limit = share(measured, kind), LIMITS[kind]
    samples = sum(each.hidden for each in measured) / sum(each.samples for each in measured)
    name = {"bare": "tokens told by their form", "keyed": "secrets told by a service's name"}[kind]
    return Row(
        f"masking: {name}, rules of gitleaks found ({len(measured)} rules)",
        f"{found:.1%} ({samples:.1%} of the samples)",
        f"at least {limit:.0%}",
        found >= limit,
    )


def _recall(rule: str, expression: str) -> Recall | None:
    random = Random(f"{_SEED} {rule}")
    keyed = _KEYED.search(expression)
    tree = parser.parse(_as_python(expression))
    if not keyed and _spans_words(tree):
        return None  # a construct of several parts, no token
    texts: list[tuple[str, str]] = []
    for _ in range(_TOKENS):
        if keyed:
            name = _made(parser.parse(_as_python(keyed["names"])), random).rstrip(",")
            value = _made(_last_group(tree), random).strip('"')
            texts += [(form.format(name, value), value) for form in _ASSIGNED]
        else:
            token = _made(_first_group(tree), random)
            texts += [(form.format(token), token) for form in _AROUND]
    hidden = sum(_is_hidden(text, secret) for text, secret in texts)
    return Recall(rule, "keyed" if keyed else "bare", hidden, len(texts))


def _is_hidden(text: str, secret: str) -> bool:
    masked = Redactor().text(text)
    return secret not in masked and secret.strip("=")[-_TAIL:] not in masked


def _as_python(expression: str) -> str:
    """Return an expression of Go as one of Python: flags at their place become groups."""
    made = expression.replace("[:alnum:]", "a-zA-Z0-9").replace(r"\z", r"\Z")
    while found := re.search(r"(?<!\\)\(\?i\)", made):
        depth, end = 0, found.end()
        while end < len(made) and not (depth == 0 and made[end] == ")"):
            if made[end] == "\\":
                end += 1
            elif made[end] == "[":
                end = made.index("]", end + 2)
            else:
                depth += {"(": 1, ")": -1}.get(made[end], 0)
            end += 1
        made = f"{made[: found.start()]}(?i:{made[found.end() : end]}){made[end:]}"
    return made


def _groups(tree: Any) -> list[Any]:
    """Give the contents of its capturing groups, outer ones first."""
    found: list[Any] = []
    for operation, value in tree:
        if operation is sre.SUBPATTERN:
            found += [value[3]] if value[0] is not None else []
            found += _groups(value[3])
        elif operation is sre.BRANCH:
            for branch in value[1]:
                found += _groups(branch)
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            found += _groups(value[2])
    return found


def _first_group(tree: Any) -> Any:
    """Give what is the secret: the first group if it is one, else all of it."""
    while len(tree) == 1 and tree[0][0] is sre.SUBPATTERN and tree[0][1][0] is None:
        tree = tree[0][1][3]
    groups = _groups(tree)
    covers = groups and any(operation is sre.SUBPATTERN for operation, _ in tree[:2])
    return groups[0] if covers else tree


def _last_group(tree: Any) -> Any:
    groups = _groups(tree)
    return max(groups, key=lambda group: group.getwidth()[0])


def _spans_words(tree: Any) -> bool:
    """Tell whether it takes spaces or quotes within: a command or a file, no token."""
    text = _made(_first_group(tree), Random(_SEED))
    return any(each.isspace() or each in "<>\"'" for each in text.strip())


def _made(tree: Any, random: Random) -> str:
    """Return a text that the tree matches, chosen by chance."""
    return "".join(_piece(operation, value, random) for operation, value in tree)


def _piece(operation: Any, value: Any, random: Random) -> str:
    if operation is sre.LITERAL:
        return chr(value)
    if operation is sre.ANY:
        return "."  # what is meant by it: rules forget to escape the one of a host
    if operation is sre.NOT_LITERAL:
        return random.choice("abcdefgh0123")
    if operation is sre.IN:
        return random.choice(_choices(value))
    if operation is sre.BRANCH:
        return _made(random.choice(value[1]), random)
    if operation is sre.SUBPATTERN:
        return _made(value[3], random)
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, repeated = value
        most = least + _MOST_REPEATS if most is sre.MAXREPEAT else int(most)
        return "".join(_made(repeated, random) for _ in range(random.randint(least, most)))
    if operation is sre.AT or operation in (sre.ASSERT, sre.ASSERT_NOT):
        return ""
    message = f"no such thing is made yet: {operation}"
    raise NotImplementedError(message)


def _choices(items: Any) -> str:
    """Give the characters of a class."""
    classes = {
        sre.CATEGORY_DIGIT: r"\d",
        sre.CATEGORY_WORD: r"\w",
        sre.CATEGORY_SPACE: r"\s",
        sre.CATEGORY_NOT_SPACE: r"\S",
        sre.CATEGORY_NOT_WORD: r"\W",
    }
    found, negated = "", False
    for operation, value in items:
        if operation is sre.NEGATE:
            negated = True
        elif operation is sre.LITERAL:
            found += chr(value)
        elif operation is sre.RANGE:
            found += "".join(map(chr, range(value[0], value[1] + 1)))
        else:
            found += "".join(re.findall(classes[value], printable))
    return "".join(each for each in printable if each not in found) if negated else found
