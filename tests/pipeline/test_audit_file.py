"""app/cli/pipeline/auditing/file.py: the report takes the output of `audit --json` of its lake, and no other file."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.cli.failure import CommandFailed
from app.cli.pipeline.auditing.file import audit_of
from pipeline.storage import LakeStorage, StorageError
from tests.pipeline.test_report import AUDIT


def written(folder: Path, **changes: Any) -> Path:
    """The output of an audit in a file."""
    file = folder / "audit.json"
    file.write_text(json.dumps({**AUDIT, **changes}, default=datetime.isoformat))
    return file


def test_the_output_of_an_audit_is_read_as_it_was(tmp_path: Path) -> None:
    """GP-14."""
    assert audit_of(written(tmp_path), LakeStorage("file:///lake")) == AUDIT


_LATE = AUDIT["findings"][1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"findings": [_LATE | {"count": "many"}]}, "findings.0.count: Input should be a valid integer"),
        ({"findings": [_LATE | {"examples": None}]}, "findings.0.examples: Input should be a valid array"),
        ({"findings": [_LATE | {"hour": "noon"}]}, "findings.0.hour: Input should be a valid datetime"),
        ({"deleted": [{"topic": "orders"}]}, "deleted.0.before: Field required"),
        ({"lake": [7]}, "lake.0: Input should be a valid string"),
        ({"lake_uri": "file:///other"}, "is an audit of another lake, file:///other; this is file:///lake"),
    ],
    ids=["count", "examples", "hour", "days", "sentence", "another lake"],
)
def test_another_file_is_refused_with_its_fault(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    """GP-14: it was a traceback after minutes of Spark; the audit of another lake was shown as that of this one."""
    with pytest.raises(CommandFailed) as refused:
        audit_of(written(tmp_path, **changes), LakeStorage("file:///lake"))
    assert (said in str(refused.value), refused.value.code) == (True, 2)


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    """GP-14."""
    (tmp_path / "page.html").write_text("<!doctype html>")
    said = []
    for name in ("page.html", "missing.json"):
        with pytest.raises(CommandFailed) as refused:
            audit_of(tmp_path / name, LakeStorage("file:///lake"))
        said.append(str(refused.value).replace(f"{tmp_path / name}", name).partition(": ")[0])
    assert said == ["page.html is not the output of `hookwire pipeline audit --json`", "cannot read missing.json"]


@pytest.mark.parametrize(
    "uri", ["hdfs://user:secret@namenode/lake", "abfs://:secret@account/lake", "gs://bucket/lake?secret=1", "s3://id:secret@lakes/hub"]
)  # fmt: skip
def test_a_lake_whose_uri_has_a_secret_is_refused_without_naming_it(uri: str) -> None:
    """GP-14: the hub tells the URIs of its lakes to each reader of its status, and the report prints them."""
    with pytest.raises(StorageError) as refused:
        LakeStorage(uri)
    assert "secret" not in str(refused.value)
