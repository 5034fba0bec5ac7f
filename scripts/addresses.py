"""Writes the addresses of a repository into what is published: the project's URLs, and the links of its README.

The project does not know where it will be published. `.github/workflows/publish.yml` runs this with the address of the
repository that it runs in, in a checkout that is thrown away afterwards:

    python scripts/addresses.py https://github.com/OWNER/NAME v0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_TABLE = "[project.urls]\n"


def with_urls(pyproject: str, repository: str, tag: str) -> str:
    """Return pyproject.toml with the project's URLs, or unchanged where it has some."""
    urls = {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Documentation": f"{repository}/tree/{tag}/docs",
    }
    before, table, after = pyproject.partition(_TABLE)
    if not table:
        message = f"pyproject.toml has no {_TABLE.strip()}"
        raise ValueError(message)
    if after.strip() and not after.lstrip().startswith("["):
        return pyproject
    return before + table + "".join(f'{name} = "{url}"\n' for name, url in urls.items()) + after


def with_links(readme: str, repository: str, tag: str) -> str:
    """Return the README with links that work outside of the repository, as on the page of a package index."""
    readme = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{repository}/raw/{tag}/", readme)
    return re.sub(r"(\]\()(?!https?:|#)", rf"\g<1>{repository}/blob/{tag}/", readme)


def main(repository: str, tag: str) -> None:
    """Change both files of the current folder."""
    for path, change in ((Path("pyproject.toml"), with_urls), (Path("README.md"), with_links)):
        path.write_text(change(path.read_text(encoding="utf-8"), repository, tag), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
