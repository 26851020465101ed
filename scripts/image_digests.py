"""Writes `dist/docker-compose.yml`, with the digest behind each image's tag: `make image-digests`.

A tag may name another image tomorrow, a digest may not. The digests are asked of the images' registries over HTTP, so
neither Docker nor another engine is needed; the registries have to be reachable. An image that is built here has no
digest before it is pushed: `--image hookwire-server=registry.example/hookwire-server:1.0` asks for that of the pushed
one. `--registry http://127.0.0.1:5000` asks one registry for all, such as a mirror.

Exit codes: 0 written; 1 an image has no such tag; 2 wrong use; 3 a registry cannot be reached. Nothing is written then.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import yaml

__all__ = ["Reference", "RegistryUnreachable", "digest_of", "main", "pinned"]

_ROOT: Final = Path(__file__).parents[1]
_COMPOSE: Final = _ROOT / "docker-compose.yml"
_HUB: Final = "registry-1.docker.io"
_MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class RegistryUnreachable(Exception):
    """The registry does not answer; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An image by its tag, taken apart: ``postgres:18`` is ``library/postgres`` of Docker's own registry."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def of(cls, text: str) -> Reference:
        """Raises ``ValueError`` where there is no tag."""
        path, _, tag = text.rpartition(":")
        if not path or "/" in tag:
            raise ValueError(f"{text} names no tag")
        host, slash, rest = path.partition("/")
        if slash and ("." in host or ":" in host or host == "localhost"):
            return cls(host, rest, tag)
        return cls(_HUB, path if slash else f"library/{path}", tag)


def digest_of(client: httpx.Client, reference: Reference, registry: str | None = None) -> str:
    """Return the digest of the manifest behind a tag. Raises :class:`RegistryUnreachable`, ``LookupError``."""
    url = f"{registry or f'https://{reference.registry}'}/v2/{reference.repository}/manifests/{reference.tag}"
    try:
        answer = client.head(url, headers={"Accept": _MANIFESTS})
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = _token(client, answer.headers.get("www-authenticate", ""))
            answer = client.head(url, headers={"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"})
    except httpx.HTTPError as error:
        raise RegistryUnreachable(f"{httpx.URL(url).host} cannot be reached: {error}") from error
    digest = str(answer.headers.get("docker-content-digest", ""))
    if answer.status_code != httpx.codes.OK or not _DIGEST.fullmatch(digest):
        raise LookupError(f"{url} was answered {answer.status_code} without a digest")
    return digest


def _token(client: httpx.Client, challenge: str) -> str:
    """Return an anonymous token to pull with, where the registry says that one is given."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in fields:
        raise LookupError(f"the registry wants a login: {challenge[:80]}")
    answer = client.get(fields.pop("realm"), params=fields)
    found = answer.json() if answer.status_code == httpx.codes.OK else {}
    return str(found.get("token") or found.get("access_token") or "")


def pinned(compose: str, digests: Mapping[str, str]) -> str:
    """Return the compose file with each of these images followed by its digest; comments and order stay."""
    for image, digest in digests.items():
        compose = re.sub(rf"(?m)^(\s+image: ){re.escape(image)}$", rf"\g<1>{digest}", compose)
    return compose


def _wanted(compose: str, own: Sequence[str]) -> dict[str, str]:
    """For each image of the file, the reference to ask for; those that are built only where ``own`` names them."""
    built = dict(pair.split("=", 1) for pair in own)
    services = yaml.safe_load(compose)["services"].values()
    named = {service["image"]: built.get(service["image"], "" if "build" in service else service["image"])
             for service in services}  # fmt: skip
    if unknown := built.keys() - named.keys():
        raise ValueError(f"docker-compose.yml has no image {', '.join(sorted(unknown))}")
    return {image: reference for image, reference in named.items() if reference}


def main(arguments: Sequence[str]) -> int:
    """Write the file; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make image-digests", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--registry", help="ask this one for every image, e.g. http://127.0.0.1:5000")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=REFERENCE", help="an own image, pushed")
    parser.add_argument("--target", type=Path, default=_ROOT / "dist" / "docker-compose.yml")
    given = parser.parse_args(arguments)
    compose = _COMPOSE.read_text(encoding="utf-8")
    digests = {}
    try:
        with httpx.Client(timeout=20, follow_redirects=True) as client:
            for image, reference in _wanted(compose, given.image).items():
                digest = digest_of(client, Reference.of(reference), given.registry)
                digests[image] = f"{reference}@{digest}"
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except (LookupError, RegistryUnreachable) as error:
        print(f"{error}; nothing was written. No Docker engine is needed, only the registry.", file=sys.stderr)
        return 1 if isinstance(error, LookupError) else 3
    given.target.parent.mkdir(parents=True, exist_ok=True)
    given.target.write_text(pinned(compose, digests), encoding="utf-8")
    print(f"wrote {given.target}", *digests.values(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
