"""What a release carries, made without a Docker engine: bill of materials, images by digest, an honest audit."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.audit import verdict_of
from scripts.image_digests import Reference, main
from scripts.sbom import bill_of

ROOT = Path(__file__).parents[2]
PINS = (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8")
DIGEST = "sha256:" + "0a" * 32


class Registry(BaseHTTPRequestHandler):
    """A registry that wants a token, as Docker's own does, and has each image but one of ``missing``."""

    missing = "nothing"

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") != "Bearer t1":
            realm = f'Bearer realm="http://{self.headers["Host"]}/token",service="fake",scope="pull"'
            self._answer(401, {"WWW-Authenticate": realm})
        elif self.missing in self.path or "index.v1+json" not in self.headers["Accept"]:
            self._answer(404, {})
        else:
            self._answer(200, {"Docker-Content-Digest": DIGEST})

    def do_GET(self) -> None:
        self._answer(200, {"Content-Type": "application/json"}, b'{"token": "t1"}')

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def registry(missing: str = "nothing") -> Iterator[str]:
    handler = type("Handler", (Registry,), {"missing": missing})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def images(file: Path) -> set[str]:
    return {service["image"] for service in yaml.safe_load(file.read_text(encoding="utf-8"))["services"].values()}


def test_a_release_names_each_image_by_its_digest(tmp_path: Path) -> None:
    """FS-19: a tag may name another image tomorrow."""
    target = tmp_path / "docker-compose.yml"
    own = "hookwire-server=registry.example/hookwire-server:1.0"
    with registry() as url:
        code = main(["--registry", url, "--target", str(target), "--image", own])

    external = images(ROOT / "docker-compose.yml") - {"hookwire-server", "hookwire-lake"}
    expected = {f"{image}@{DIGEST}" for image in (*external, own.partition("=")[2])} | {"hookwire-lake"}
    assert (code, images(target)) == (0, expected)


@pytest.mark.parametrize(("missing", "code"), [("rabbitmq", 1), (None, 3)], ids=["no such tag", "no registry"])
def test_nothing_is_written_where_a_digest_cannot_be_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str | None, code: int
) -> None:
    target = tmp_path / "docker-compose.yml"
    with registry(missing or "nothing") as url:
        address = url if missing else "http://127.0.0.1:9"
        found = main(["--registry", address, "--target", str(target)])

    assert (found, target.exists(), "No Docker engine is needed" in capsys.readouterr().err) == (code, False, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres:18", ("registry-1.docker.io", "library/postgres", "18")),
        ("apache/kafka:4.2.2", ("registry-1.docker.io", "apache/kafka", "4.2.2")),
        ("localhost:5000/a/b:1", ("localhost:5000", "a/b", "1")),
    ],
)
def test_an_images_name_says_which_registry_has_it(text: str, expected: tuple[str, str, str]) -> None:
    assert Reference.of(text) == Reference(*expected)


def test_the_bill_of_materials_names_what_is_pinned_with_its_hashes() -> None:
    """FS-19; CycloneDX 1.6. What is pinned is what the image installs, beside the SDK of the same checkout."""
    bill = json.loads(json.dumps(bill_of(PINS)))
    sdk, *components = bill["components"]
    references = [one["externalReferences"][0] for one in components]
    hashes = [found["content"] for reference in references for found in reference["hashes"]]
    pins = [line.split(" ")[0].split("==") for line in PINS.splitlines() if "==" in line and not line.startswith("#")]

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [[one["name"], one["version"]] for one in components] == pins
    assert (sdk["name"], sdk["version"]) == ("hookwire", bill["metadata"]["component"]["version"])
    assert sorted(hashes) == sorted(re.findall("[0-9a-f]{64}", PINS))
    assert {one["ref"] for one in bill["dependencies"]} == {bill["metadata"]["component"]["bom-ref"]}


def test_a_line_without_hashes_is_in_no_bill() -> None:
    with pytest.raises(ValueError, match="no pin with hashes: httpx"):
        bill_of("httpx>=1\n")


CLEAN: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
FLAWED: dict[str, Any] = {**CLEAN, "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
SKIPPED: dict[str, Any] = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"dependencies": [CLEAN]}, 0),
        ({"dependencies": [CLEAN, FLAWED, SKIPPED]}, 1),
        ({"dependencies": [CLEAN, SKIPPED]}, 3),
        ({"dependencies": []}, 3),
        (None, 3),
    ],
    ids=["clean", "flawed", "skipped", "nothing", "no answer"],
)
def test_what_was_not_audited_is_no_success(answer: dict[str, Any] | None, code: int) -> None:
    """pip-audit itself ends with 0 where its database knows no package."""
    assert verdict_of({"run": answer})[0] == code
