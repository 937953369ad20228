"""Run MemoryHub's commands from a fresh checkout: `python3 tools/bootstrap.py demo`.

Needs Python's standard library and nothing else. It finds uv, or fetches the release
that uv.lock pins and compares its digest; uv then installs what the command needs into
.venv, comparing every digest with the lock. Nothing outside the checkout changes but
uv's cache.
"""

import sys

if not (3, 11) <= sys.version_info[:2] < (3, 15):
    sys.stderr.write(
        "MemoryHub needs Python 3.11 to 3.14, and this is {}.{}.\n".format(
            *sys.version_info[:2]
        )
    )
    sys.exit(2)

import functools
import hashlib
import importlib.util
import io
import os
import platform
import re
import shutil
import signal
import ssl
import subprocess
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"

#: What pytest answers when its selection is empty, and our parts without PostgreSQL.
NO_TESTS = 5
NO_PARTS = 69

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
#: One more than cores, since tests often wait for a browser or a server.
WORKERS = ("-n", str(CORES + 1), "--dist", "worksteal")

#: What `test` takes; the rest is for `test-all` and `nightly`.
QUICK = "not slow and not nightly"

#: Another environment, and databases that `manage.py serve` was configured for: these
#: commands bring their own.
OTHERS = {"VIRTUAL_ENV", "DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL"}

#: What `uv run` makes present before a command runs. It only adds.
DEMO = ("--no-default-groups",)
TEST = ("--no-default-groups", "--group", "test", "--group", "build", "--all-extras")
ALL = (*TEST[1:], "--group", "quality")

LINTERS = (
    ("ruff", "format", "--check"),
    ("ruff", "check"),
    ("djlint", "--lint", "--quiet", "templates"),
    ("mypy",),
    ("lint-imports",),
    ("python", "manage.py", "makemigrations", "--check", "--dry-run"),
    ("deptry", "."),
)


def main(arguments: list[str]) -> int:
    name, *rest = arguments or ["help"]
    command = COMMANDS.get(name)
    if command is None:
        sys.stderr.write(f"There is no command {name!r}.\n{listing()}")
        return 2
    return command(rest)


# Commands


def usage(_: list[str]) -> int:
    """Show this list."""
    sys.stdout.write(listing())
    return 0


def demo(rest: list[str]) -> int:
    """Start the server with simulated agents and print a link to sign in."""
    return uv_run(DEMO, "python", "manage.py", "demo", *rest)


def serve(rest: list[str]) -> int:
    """Start an empty hub on the data folder and databases that are configured."""
    return uv_run(DEMO, "python", "manage.py", "serve", *rest, configured=True)


def test(rest: list[str]) -> int:
    """Run what a change can break: on SQLite, in a browser, then on PostgreSQL."""
    return both_engines(rest, QUICK, f"({QUICK}) and (engines or grown)")


def test_all(rest: list[str]) -> int:
    """Run what `test` leaves out: promises under load, and all on PostgreSQL."""
    slow = "slow and not nightly"
    return both_engines(rest, slow, f"{slow} or not nightly and not (engines or grown)")


def lint(_: list[str]) -> int:
    """Check style, types, import contracts, migrations and dependencies."""
    failed = []
    for linter in LINTERS:
        print("→", *linter, flush=True)
        if uv_run(ALL, *linter):
            failed.append(" ".join(linter))
    if failed:
        print("Not in order:", "; ".join(failed))
    return 1 if failed else 0


def fix(_: list[str]) -> int:
    """Mend what can be mended by machine: style and the order of imports."""
    return uv_run(ALL, "ruff", "check", "--fix") | uv_run(ALL, "ruff", "format")


def check(rest: list[str]) -> int:
    """Run lint, then test."""
    return lint([]) or test(rest)


def bench(rest: list[str]) -> int:
    """Measure, and keep the figures by day; `docs` makes the tables of them."""
    return uv_run(TEST, "python", "-m", "benchmarks", *rest)


def nightly(rest: list[str]) -> int:
    """Run promises at full load, controls and fuzzers; a test left out has failed."""
    os.environ["MEMORYHUB_TEST_ALL"] = "1"
    # Each process is started as an operator starts it, none is forked from another.
    os.environ["MEMORYHUB_TEST_COLD"] = "1"
    chosen = "nightly or promise"
    fuzzed = (*TEST, "--group", "nightly")
    return both_engines(["--timeout=3600", *rest], chosen, chosen, present=fuzzed)


def wheel(_: list[str]) -> int:
    """Build the wheel of the server into dist/."""
    backend = ("python", "-m", "hatchling", "build", "--target", "wheel")
    return uv_run(("--no-default-groups", "--group", "build"), *backend)


def typescript(_: list[str]) -> int:
    """Build the package of the TypeScript client into dist/, with npm."""
    return uv_run(DEMO, "python", "-m", "tools.typescript")


def docs(_: list[str]) -> int:
    """Write what in docs/ follows from the code, tests and kept figures."""
    return uv_run(TEST, "python", "-m", "tools.docs")


def screenshots(rest: list[str]) -> int:
    """Take the pictures that the README and docs/ show."""
    return uv_run(TEST, "pytest", "-m", "screenshots", *rest)


def vendor(rest: list[str]) -> int:
    """Fetch the browser's libraries again and compare their digests."""
    return run(
        [sys.executable, str(ROOT / "tools" / "vendor.py"), *rest],
        environment(configured=False),
    )


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "help": usage,
    "demo": demo,
    "serve": serve,
    "test": test,
    "test-all": test_all,
    "lint": lint,
    "fix": fix,
    "check": check,
    "bench": bench,
    "nightly": nightly,
    "wheel": wheel,
    "typescript": typescript,
    "docs": docs,
    "screenshots": screenshots,
    "vendor": vendor,
}


def listing() -> str:
    return "".join(
        f"  {name:<12} {command.__doc__}\n" for name, command in COMMANDS.items()
    )


def both_engines(
    rest: list[str], first: str, second: str, *, present: tuple[str, ...] = TEST
) -> int:
    """Run two passes of pytest; if the one fails, the other runs all the same."""
    pytest = ("pytest", *WORKERS, "-m")
    parts = ("python", "-m", "tests.harness.parts")
    outcomes = [
        uv_run(present, *pytest, f"({first}) and not grown and not screenshots", *rest),
        uv_run(
            present,
            *parts,
            *pytest,
            f"({second}) and not browser and not screenshots",
            *rest,
        ),
    ]
    # What is asked for may be of one engine; a part that is missing has been named.
    harmless = (0, NO_TESTS, NO_PARTS)
    failed = [status for status in outcomes if status not in harmless]
    return failed[0] if failed else min(outcomes)


# Running


def uv_run(present: tuple[str, ...], *command: str, configured: bool = False) -> int:
    # A default index in the environment would make uv rewrite uv.lock, if not frozen.
    uv = [find_uv(), "run", "--frozen", "--python", sys.executable]
    return run([*uv, *present, *command], environment(configured=configured))


def run(command: list[str], env: dict[str, str]) -> int:
    """Run to the end, however it is stopped, and pass its status on."""
    child = subprocess.Popen(command, cwd=ROOT, env=env)
    # The terminal tells the child about Ctrl-C itself; what it answers counts.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    status = child.wait()
    if status in (-signal.SIGINT, 128 + signal.SIGINT):
        sys.exit(128 + signal.SIGINT)
    return status if status >= 0 else 128 - status


def environment(*, configured: bool) -> dict[str, str]:
    """Return our environment without another's; databases only if `configured`."""
    left_out = {"VIRTUAL_ENV"} if configured else OTHERS
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    # Behind a proxy that signs TLS anew, uv's own roots know no issuer.
    if sys.platform in ("darwin", "win32") or has_certificates():
        env.setdefault("UV_SYSTEM_CERTS", "1")
    return env


def has_certificates() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


# Finding uv


def find_uv() -> str:
    """Return the path of $UV, of a uv on PATH as new as ours, or of our own."""
    given = os.environ.get("UV")
    if given:
        return given
    release = pinned()
    ours = TOOLS / "bin" / ("uv.exe" if sys.platform == "win32" else "uv")
    for found in (shutil.which("uv"), str(ours)):
        if found and version(found) >= number(release["version"]):
            return found
    print(f"Fetching uv {release['version']} into .tools …", flush=True)
    if not fetch_by_pip(release):
        fetch_by_url(release, ours)
    return str(ours)


@functools.cache
def pinned() -> dict[str, Any]:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    (release,) = (entry for entry in lock["package"] if entry["name"] == "uv")
    return dict(release)


def version(uv: str) -> tuple[int, ...]:
    try:
        command = [uv, "--version"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return number(answer.stdout)


def number(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def fetch_by_pip(release: dict[str, Any]) -> bool:
    """Install uv by pip if it is here: pip knows this machine's mirrors, proxies."""
    if importlib.util.find_spec("pip") is None:
        return False
    hashes = " ".join(f"--hash={wheel['hash']}" for wheel in release["wheels"])
    TOOLS.mkdir(exist_ok=True)
    pins = TOOLS / "requirements.txt"
    pins.write_text(f"uv=={release['version']} {hashes}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "--upgrade", "--target", str(TOOLS)]
    install = [*pip, "install", *options, "-r", str(pins)]
    env = os.environ | {"PIP_ROOT_USER_ACTION": "ignore"}
    return subprocess.run(install, check=False, env=env).returncode == 0


def fetch_by_url(release: dict[str, Any], target: Path) -> None:
    wheel = next(fitting(release["wheels"]), None)
    if wheel is None:
        sys.exit("uv has no wheel for this machine: install uv, then try again.")
    try:
        with urllib.request.urlopen(wheel["url"], timeout=60) as response:  # noqa: S310  # a URL of uv.lock
            content = response.read()
    except OSError as error:
        sys.exit(f"Could not fetch {wheel['url']}: {error}")
    if "sha256:" + hashlib.sha256(content).hexdigest() != wheel["hash"]:
        sys.exit(f"{wheel['url']} is not what uv.lock says: its digest differs.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (script,) = (
            name for name in archive.namelist() if name.endswith(f"/{target.name}")
        )
        target.write_bytes(archive.read(script))
    target.chmod(0o755)


def fitting(wheels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the wheels whose tag names this system, its C library and its processor."""
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    system = {"darwin": "macosx", "win32": "win"}.get(sys.platform, libc)
    machine = platform.machine().lower()
    for wheel in wheels:
        tags = wheel["url"].removesuffix(".whl").rsplit("-", 1)[1]
        if re.search(rf"(^|\.){system}_(\d+_\d+_)?{machine}(\.|$)", tags):
            yield wheel


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
