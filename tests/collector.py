"""A real collector for tests: rotel, from its wheel, which forwards what it received to a backend of ours.

with HttpBackend() as sink, Collector(sink.url, folder) as collector:
    ...                          # send to collector.http_url or collector.grpc_url
    collector.wait_for(sink, n)  # spans that came out of it

Its program is linked with the shared library of the Python its wheel is for, which Debian's python3 does without.
`python tests/collector.py`, which `make` runs, fetches it by apt where it is missing, into the environment.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import certifi

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backend import HttpBackend

_SECONDS: Final = 20.0  # for it to be up, or for spans to come through
_PACKAGE: Final = "libpython{}.{}".format(*sys.version_info)
_FETCHED: Final = Path(sys.prefix) / "lib" / _PACKAGE
# Besides where the system looks: beside the interpreter in use, and where it was fetched to.
_ENVIRONMENT: Final = {
    # No proxy, no settings of the user.
    "LD_LIBRARY_PATH": ":".join(
        map(str, (sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix) / "lib", _FETCHED))
    ),
    "SSL_CERT_FILE": certifi.where(),  # it does not start without any, and a minimal system has none
}


class Collector:
    """One collector on 127.0.0.1, on these ports (gRPC, HTTP) or free ones, gone when the block is left."""

    def __init__(self, forward_to: str, folder: Path, ports: Sequence[int] | None = None) -> None:
        grpc_port, http_port = ports or free_ports(2)
        self.http_url = f"http://127.0.0.1:{http_port}"
        self.grpc_url = f"http://127.0.0.1:{grpc_port}"
        self._log = folder / "rotel.log"
        options = {
            "otlp-grpc-endpoint": f"127.0.0.1:{grpc_port}",
            "otlp-http-endpoint": f"127.0.0.1:{http_port}",
            "otlp-grpc-max-recv-msg-size-mib": "1",
            "exporter": "otlp",
            "otlp-exporter-endpoint": forward_to,
            "otlp-exporter-protocol": "http",
            "batch-timeout": "20ms",
            "pid-file": str(folder / "rotel.pid"),
            "log-file": str(self._log),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(_binary()), "start", *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                env=_ENVIRONMENT,
            )
        self._wait_until_up(grpc_port, http_port)

    def __enter__(self) -> Self:
        """Return itself, up already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.close()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_for(self, sink: HttpBackend, spans: int) -> None:
        """Wait until so many spans have come out of it."""
        self.wait_until(lambda: len(sink.spans) >= spans)

    def wait_until(self, is_there: Callable[[], bool]) -> None:
        """Wait until something has come out of it."""
        deadline = time.monotonic() + _SECONDS
        while not is_there():
            if time.monotonic() > deadline:
                message = f"it did not come through: {self._log.read_text()}"
                raise TimeoutError(message)
            time.sleep(0.01)

    def _wait_until_up(self, *ports: int) -> None:
        deadline = time.monotonic() + _SECONDS
        for port in ports:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        self.close()
                        message = f"rotel is not up: {self._log.read_text()}"
                        raise RuntimeError(message) from None
                    time.sleep(0.02)


def _binary() -> Path | None:
    """Where the collector's program is, None where its wheel is not installed (there is none for some platforms)."""
    spec = importlib.util.find_spec("rotel")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).with_name("rotel-agent")
    return found if found.is_file() else None


def why_not() -> str | None:
    """Why the collector cannot run here, and what to do about it; None where it can."""
    program = _binary()
    if program is None:
        return "rotel is not installed: it has no wheel for this platform"
    done = subprocess.run([str(program), "--help"], env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return f"rotel does not start ({done.stderr.strip()}); on Debian and Ubuntu: apt install {_PACKAGE}"


def _fetch_library() -> None:
    """Take the library out of its Debian package, which needs no rights; `why_not` says what else can be done."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if why_not() is None or apt is None or dpkg is None:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([apt, "download", "--quiet", _PACKAGE], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run([dpkg, "-x", str(package), str(folder / "unpacked")], check=True)
        for library in folder.glob("unpacked/usr/lib/*/libpython*.so.*"):
            _FETCHED.mkdir(exist_ok=True)
            shutil.copy2(library, _FETCHED)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


if __name__ == "__main__":
    _fetch_library()
