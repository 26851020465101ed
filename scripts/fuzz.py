"""``make fuzz``: schemathesis over the OpenAPI file, against a hub of its own on an embedded database.

No answer may be a server error, and every answer has a documented status, media type and schema. Arguments go on to
schemathesis, such as ``--max-examples 20`` or ``--include-path /topics``; the last line of its output has the seed.
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runtime.port import free_port

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent
EXAMPLES = "100"
"""For each operation: with the coverage phase, more than 5,000 cases in all."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = "60"
"""Longer than the longest wait that can be asked for (POST /subscriptions/{id}/dequeue)."""


@contextmanager
def running_hub(folder: Path) -> Iterator[str]:
    """Yield the address of a hub that answers; it ends with the context, and its log stays in the folder."""
    url = f"http://127.0.0.1:{free_port()}"
    settings = {"DATA_DIR": str(folder / "data"), "LISTEN": url.removeprefix("http://"), "LOG_LEVEL": "error"}
    environment = os.environ | {f"HOOKWIRE_{name}": value for name, value in settings.items()}
    with (folder / "hub.log").open("wb") as log:
        hub = subprocess.Popen([PROGRAMS / "hookwire", "serve"], env=environment, stdout=log, stderr=log)
    try:
        wait_until_ready(hub, url)
        yield url
    finally:
        hub.terminate()
        hub.wait()


def wait_until_ready(hub: subprocess.Popen[bytes], url: str) -> None:
    """Returns once the hub is ready; an error when it ends first, or takes too long."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while hub.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the hub did not start")


def schemathesis(url: str, folder: Path, arguments: Sequence[str]) -> int:
    """Run schemathesis and return its exit code; its files stay in the folder."""
    command = [str(PROGRAMS / "schemathesis"), "run", str(ROOT / "openapi" / "openapi.json"), "--url", url]
    command += ["--max-examples", EXAMPLES, "--checks", CHECKS, "--suppress-health-check", "all"]
    command += ["--request-timeout", ANSWER_SECONDS_MAX]
    command += ["--phases", "examples,coverage,fuzzing", *arguments]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "scripts.fuzz_hooks", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=False, cwd=folder, env=environment).returncode


def main(arguments: Sequence[str]) -> int:
    """Run schemathesis; its exit code, or 1 when the hub has logged an error of its own."""
    with tempfile.TemporaryDirectory(prefix="hookwire-fuzz-") as name:
        folder = Path(name)
        with running_hub(folder) as url:
            code = schemathesis(url, folder, arguments)
        said = (folder / "hub.log").read_text()
        if "programming error" in said:
            print(said[-4_000:])
            return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
