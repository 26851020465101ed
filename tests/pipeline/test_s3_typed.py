"""The long storey on S3: typed rows are computed there, read by another reader, checked and erased (GP-13)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.lake import bronze
from pipeline.storage import LakeStorage
from tests.pipeline.fetched import lake_jars
from tests.pipeline.foreign import batch, row
from tests.pipeline.long_storey import s3_server
from tests.pipeline.test_s3 import LAKE, hookwire
from tests.pipeline.test_typed import hub  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TYPED = "typed/orders.made/2"


def test_typed_rows_lie_on_s3_as_in_a_folder(hub: str, tmp_path: Path) -> None:  # noqa: F811
    with s3_server(tmp_path) as (options, _):
        settings = {
            "HOOKWIRE_DATABASE_URL": hub, "HOOKWIRE_DATA_DIR": str(tmp_path / "data"),
            "HOOKWIRE_PIPELINE_MASTER": "local[2]", "HOOKWIRE_PIPELINE_S3_ENDPOINT": options.endpoint,
            "HOOKWIRE_PIPELINE_S3_ACCESS_KEY": options.access_key,
            "HOOKWIRE_PIPELINE_S3_SECRET_KEY": options.secret_key,
            "HOOKWIRE_PIPELINE_CONF": json.dumps({"spark.jars": ",".join(lake_jars())}),
            "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"],
        }  # fmt: skip
        store = LakeStorage(LAKE, options)
        values = [b'{"order": 1}', b'{"order": 2}', b"no json"]
        batch(bronze(store), *(row(n, "ab"[n % 2], value=value) for n, value in enumerate(values, 1)))

        def orders() -> list[int]:
            table = DeltaTable(f"{LAKE}/{TYPED}", storage_options=options.delta())
            return sorted(table.to_pyarrow_table(columns=["order"])["order"].to_pylist())

        def typed() -> tuple[int, list[tuple[int, ...]]]:
            code, said, errors = hookwire("typed", "--json", **settings)
            assert said, errors
            return code, [tuple(of[name] for name in ("days", "rows", "rejected")) for of in json.loads(said)["topics"]]

        assert (typed(), orders()) == ((1, [(1, 2, 1)]), [1, 2])
        assert typed() == (0, [(0, 0, 0)])
        code, said, errors = hookwire("erase", "--key", "b", "--json", **settings)
        assert (code, json.loads(said)["typed"], orders()) == (0, 2, [2]), errors
        code, said, errors = hookwire("check", "--json", **settings)
        assert (code, json.loads(said)["damaged"]) == (0, []), errors
