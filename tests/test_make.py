"""What `make` makes its environment by: uv, else any Python that will do; and what it says of what is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import collector
import pytest
from shared import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="make is for POSIX systems")

PYTHON = """#!/bin/sh
case "$*" in
*version_info* | *ensurepip*) exit 0 ;;
*"-m venv "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
esac
echo "${0##*/} $*"
"""
OLD = "#!/bin/sh\nexit 1\n"
WITHOUT_VENV = PYTHON.replace("*version_info* | *ensurepip*) exit 0 ;;", "*version_info*) ;;\n*ensurepip*) exit 1 ;;")
UV = '#!/bin/sh\n[ "$1" = --version ] || echo "uv $*"\n'
UV_WITHOUT_INDEX = '#!/bin/sh\n[ "$1" != pip ]\n'


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine on which there are only these programs."""

    folder: Path

    def add(self, name: str, script: str) -> None:
        (self.folder / name).write_text(script)
        (self.folder / name).chmod(0o755)

    def run(self, **variables: str) -> tuple[int, list[str], str]:
        done = subprocess.run(
            ["/bin/sh", str(ROOT / "scripts" / "environment.sh"), "made", "-e", ".[dev]"],
            env={"PATH": str(self.folder), **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("mkdir", "cp", "rm"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    return Machine(tmp_path)


def test_uv_is_used_where_there_is_one(machine: Machine) -> None:
    """With the system's Python, else with one it finds itself, for which every dependency has a wheel."""
    machine.add("uv", UV)
    install = "uv pip install --quiet --python made/bin/python -e .[dev]"
    assert machine.run() == (0, ["uv venv --quiet --allow-existing --python >=3.11,<3.15 made", install], "")
    machine.add("python3", WITHOUT_VENV)
    assert machine.run() == (0, ["uv venv --quiet --allow-existing --python python3 made", install], "")


def test_pip_is_tried_where_uv_fails(machine: Machine) -> None:
    """An index that is set for pip alone."""
    machine.add("uv", UV_WITHOUT_INDEX)
    machine.add("python3", PYTHON)
    code, _, said = machine.run()
    assert (code, said) == (0, "uv failed (see above); trying pip\n")


@pytest.mark.parametrize("name", ["python3", "python3.14", "python3.13", "python3.12", "python3.11"])
def test_any_python_will_do(machine: Machine, name: str) -> None:
    machine.add("python3", OLD)
    machine.add(name, PYTHON)
    installed = "python -m pip install --quiet --disable-pip-version-check -e .[dev]"
    assert machine.run() == (0, [f"{name} -I -m venv made", installed], "")


def test_what_is_missing_is_named(machine: Machine) -> None:
    """No Python, one that is too old, one without venv, and the one that was chosen."""
    assert machine.run() == (1, [], "environment.sh: python3 not found; install Python 3.11 or newer, or uv\n")
    machine.add("python3", OLD)
    code, _, said = machine.run()
    assert (code, said.partition(";")[0]) == (1, "environment.sh: python3 is not Python 3.11 or newer")
    machine.add("python3", WITHOUT_VENV)
    code, _, said = machine.run()
    assert code == 1
    assert "(on Debian and Ubuntu: apt install python3-venv)" in said
    assert machine.run(PYTHON="python9") == (
        1,
        [],
        "environment.sh: python9 not found; install Python 3.11 or newer, or uv\n",
    )


@pytest.mark.skipif(
    shutil.which("make") is None, reason="make is not installed; on Debian and Ubuntu: apt install make"
)
def test_make_creates_the_environment_before_it_checks() -> None:
    """With the Python that was chosen; then it fetches what the collector lacks, and only then are tests run."""
    command = ["make", "--dry-run", "--always-make", "--directory", str(ROOT), "PYTHON=python9", "test"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    run = [line for line in printed.splitlines() if not line.startswith(("make", "echo", "touch"))]
    assert run[:2] == [
        "PYTHON='python9' sh scripts/environment.sh .venv -e '.[dev]'",
        ".venv/bin/python tests/collector.py",
    ]
    assert [line.split()[0] for line in run[2:]] == [f".venv/bin/{tool}" for tool in ("ruff", "ruff", "mypy", "pytest")]


LIBRARY = f"{'libpython{}.{}'.format(*sys.version_info)}.so.1.0"
# Starts only where the library lies in a folder that it is told of.
LINKED = f"""#!/bin/sh
IFS=:
for folder in $LD_LIBRARY_PATH; do [ ! -f "$folder/{LIBRARY}" ] || exit 0; done
echo "cannot open {LIBRARY}" >&2
exit 127
"""
APT_GET = '#!/bin/sh\n[ "$1" = download ] && : >package.deb\n'
DPKG_DEB = f'#!/bin/sh\nmkdir -p "$3/usr/lib/any" && : >"$3/usr/lib/any/{LIBRARY}"\n'


def test_missing_library_of_the_collector_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's python3 comes without it. By apt, which needs no rights for that; else the tests say what to install."""
    tools, fetched = tmp_path / "tools", tmp_path / "fetched"
    tools.mkdir()
    for name, script in (("rotel-agent", LINKED), ("apt-get", OLD), ("dpkg-deb", DPKG_DEB)):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(collector, "_binary", lambda: tools / "rotel-agent")
    monkeypatch.setattr(collector, "_FETCHED", fetched)
    monkeypatch.setattr(collector, "_ENVIRONMENT", {"LD_LIBRARY_PATH": f"{tmp_path}:{fetched}"})
    package = LIBRARY.removesuffix(".so.1.0")
    collector._fetch_library()
    assert collector.why_not() == (
        f"rotel does not start (cannot open {LIBRARY}); on Debian and Ubuntu: apt install {package}"
    )
    (tools / "apt-get").write_text(APT_GET)
    collector._fetch_library()
    assert collector.why_not() is None


def test_run_reports_why_tests_are_skipped(tmp_path: Path) -> None:
    """With the settings of the project, which tests/fresh.sh relies on: it looks for reasons in what is printed."""
    test = "import pytest\n\n\ndef test_it():\n    pytest.skip('rotel does not start')\n"
    (tmp_path / "test_skipped.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "rotel does not start" in done.stdout


def test_a_fresh_machine_is_expected_to_say_what_is_said() -> None:
    """The texts that tests/fresh.sh looks for stand in the programs, but for the names and numbers in them."""
    files = [ROOT / "install.sh", ROOT / "scripts" / "environment.sh", *(ROOT / "cc_trace").rglob("*.py")]
    said = "\n".join(path.read_text() for path in files)
    said = re.sub(r'\\\n|"\n *f?"', "", said)
    texts = re.findall(r'^ +says "(.+)"$', (ROOT / "tests" / "fresh.sh").read_text(), re.MULTILINE)
    assert len(texts) > 15
    fixed = [max(re.split(r"\$\w+|'?/[\w/.-]+|\d+(?:\.\d+)*|python3?", text), key=len) for text in texts]
    assert [text for text in fixed if len(text) > 9 and text.strip() not in said] == []
