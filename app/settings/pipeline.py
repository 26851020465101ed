"""Settings of the data pipeline; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from app.settings.part import SettingsPart

__all__ = ["PipelineSettings", "of_aws"]


class PipelineSettings(SettingsPart):
    """The place of the lake, its object store, and the options of Spark.

    An S3 setting that is empty is taken from AWS's own variable of the same meaning.
    """

    pipeline_lake: str = Field(
        "",
        description="Folder or URI (file:, s3a:, hdfs:) of the data pipeline's lake; none: lake/ in the data folder.",
    )
    pipeline_source: Literal["python", "jvm"] = Field(
        "python",
        description="Reader of Kafka for the lake: our own source, which needs no jars, or Spark's connector.",
    )
    pipeline_master: str | None = Field(
        "local[*]", description="Spark's master; under spark-submit its own master applies."
    )
    pipeline_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]*[mg]$", description="Memory of Spark's driver; locally that is all of Spark."
    )
    pipeline_conf: dict[str, str] = Field(
        {},
        description='Settings of Spark, as a JSON object ({"spark.ui.enabled": "true"}); they win over all but a few.',
    )
    pipeline_late_seconds: float = Field(
        3600,
        gt=0,
        description="Age after which the audit reports an arrival at Kafka or a webhook as late.",
    )
    pipeline_s3_endpoint: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#@]+)?$",
        description="For a lake at s3a:// on another store than AWS: its URL; none: AWS_ENDPOINT_URL, else AWS.",
    )
    pipeline_s3_region: str = Field("", description="Region of the lake's bucket; none: AWS_REGION.")
    pipeline_s3_access_key: str = Field(
        "", description="Access key of the lake's bucket; none: AWS_ACCESS_KEY_ID, else the machine's role."
    )
    pipeline_s3_secret_key: SecretStr | None = Field(
        None, description="Secret of the access key; none: AWS_SECRET_ACCESS_KEY."
    )
    pipeline_s3_session_token: SecretStr | None = Field(
        None, description="For keys that expire: their token; none: AWS_SESSION_TOKEN."
    )

    @field_validator("pipeline_conf", mode="before")
    @classmethod
    def _read_json(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError('must be a JSON object such as {"spark.ui.enabled": "true"}') from None


def of_aws(*names: str) -> str:
    """Return the first of AWS's own variables that has a value, or ""."""
    return next(filter(None, map(os.environ.get, names)), "")
