"""S3: one set of credentials for all clients that read or write the lake there (ADR 50).

::

    S3Options --> Spark's s3a     data files
              --> deltalake       the tables' logs
              --> pyarrow         listings, hashes, the table of runs

Each of the three clients has its own names for the same five values. For an empty value each client searches its own
sources, such as the role of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from pyarrow import fs

__all__ = ["S3Options"]

_ANSWER_SECONDS: Final = 60
"""Pyarrow waits for 3 s by default. A busy store may take longer to list 10,000 files."""


@dataclass(frozen=True, slots=True)
class S3Options:
    """Options of S3; "" leaves a value open.

    ``endpoint`` is the URL of a store that is not AWS. Such a store has its buckets in the path, and the default region
    us-east-1.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    def spark(self) -> dict[str, str]:
        """Return settings of Hadoop's ``s3a`` for a Spark session. Spark masks the secrets in its pages and logs."""
        given = {
            "endpoint": self.endpoint,
            "endpoint.region": self._region,
            "path.style.access": "true" if self.endpoint else "",
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "session.token": self.session_token,
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items() if value}

    def delta(self) -> dict[str, str]:
        """Return the storage options of ``deltalake``."""
        given = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true" if self.endpoint.startswith("http://") else "",
            "AWS_REGION": self._region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }
        return {name: value for name, value in given.items() if value}

    def arrow(self) -> fs.S3FileSystem:
        """Return pyarrow's file system."""
        given = {
            "endpoint_override": self.endpoint,
            "region": self._region,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.session_token,
        }
        return fs.S3FileSystem(
            request_timeout=_ANSWER_SECONDS, **{name: value for name, value in given.items() if value}
        )

    def placed(self, bucket: str) -> S3Options:
        """Return these options with the bucket's region. AWS tells it without credentials. Raises OSError."""
        is_known = self.region or self.endpoint
        return self if is_known else replace(self, region=fs.resolve_s3_region(bucket))

    @property
    def _region(self) -> str:
        return self.region or ("us-east-1" if self.endpoint else "")
