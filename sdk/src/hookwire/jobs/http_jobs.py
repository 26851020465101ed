"""Jobs over HTTP: a worker's requests to a hub, in threads of its own, with the standard library alone."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from hookwire.jobs.failure import reason_of
from hookwire.jobs.job import Failed, Job, Snoozed, encode
from hookwire.jobs.result import stored_result

__all__ = ["HttpJobs", "HubRefused"]

_SECONDS = 30.0
_THREADS = 8
_STALE = (http.client.NOT_FOUND, http.client.CONFLICT)
_PASSING = (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)


class HubRefused(Exception):
    """The hub refused a request; ``status`` is the HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class HttpJobs:
    """Claims and settles jobs by the routes of ``/jobs``. ``key`` is an API key with the scope ``work``."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url = urlsplit(url)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hookwire-http")
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    async def claim(
        self, kinds: Sequence[str] | None, most: int, worker: str, lease_seconds: float, queue: str
    ) -> list[Job]:
        """Claim and return at most ``most`` jobs of these kinds."""
        asked = {
            "kinds": list(kinds) if kinds is not None else None,
            "max": min(most, 500),
            "worker": worker,
            "lease_seconds": lease_seconds,
            "queue": queue,
        }
        found = await self._post("/jobs/claim", asked)
        return [_job_of(item) for item in found["items"]]

    async def complete(self, done: Sequence[tuple[Job, Any]], connection: Any = None) -> set[str]:
        """Complete jobs, one request for each. Return the ids of the jobs that were still held."""
        settled = await asyncio.gather(*(self._complete(job, result) for job, result in done))
        return {job.id for (job, _), held in zip(done, settled, strict=True) if held is not None}

    async def _complete(self, job: Job, result: Any) -> Any:
        text, note = stored_result(result)
        return await self._settle(job, "complete", result=json.loads(text), **job.extra(note))  # noqa: S610 - no Django

    async def fail(self, job: Job, failed: Failed) -> None:
        """Fail the attempt."""
        await self._settle(job, "fail", error=reason_of(failed), dead=failed.dead, retry_seconds=failed.retry_seconds)

    async def snooze(self, job: Job, snoozed: Snoozed) -> None:
        """Postpone the job without costing an attempt."""
        await self._settle(job, "snooze", seconds=snoozed.seconds, token=snoozed.token)

    async def extend(self, held: Sequence[Job], lease_seconds: float) -> dict[str, bool]:
        """Extend leases. Return, for each job that is still held, its id and whether to cancel it."""
        answers = await asyncio.gather(*(self._settle(job, "extend", lease_seconds=lease_seconds) for job in held))
        return {job.id: answer["is_cancelled"] for job, answer in zip(held, answers, strict=True) if answer is not None}

    async def release(self, held: Sequence[Job]) -> None:
        """Release jobs of a worker that stops, without costing an attempt."""
        await asyncio.gather(*(self._settle(job, "release", reason="stop") for job in held))

    async def listen(self, wake: Callable[[], None]) -> None:
        """Return: over HTTP a worker polls."""

    async def _settle(self, job: Job, verb: str, **body: Any) -> Any:
        """Return the hub's answer, or None for a stale receipt or a job that is gone."""
        try:
            found = await self._post(f"/jobs/{quote(job.id)}/{verb}", {"receipt": f"job_{job.id}_{job.claim}", **body})
        except HubRefused as refused:
            if refused.status not in _STALE:
                raise
            return None
        return {} if found is None else found

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        content = encode(body).encode()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._post_now, path, content)

    def _post_now(self, path: str, body: bytes) -> Any:
        made = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = made(self._url.hostname or "localhost", self._url.port, timeout=_SECONDS)
        try:
            connection.request("POST", self._url.path.rstrip("/") + path, body, self._headers)
            answer = connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"the hub's answer broke off: {error!r}") from error
        finally:
            connection.close()
        if answer.status >= http.client.INTERNAL_SERVER_ERROR or answer.status in _PASSING:
            raise OSError(f"the hub answered {answer.status}")
        if answer.status >= http.client.BAD_REQUEST:
            raise HubRefused(answer.status, content.decode("utf-8", "replace")[:500])
        return json.loads(content) if content else None


def _job_of(item: dict[str, Any]) -> Job:
    job = item["job"]
    return Job(
        job["id"], int(item["receipt"].rpartition("_")[2]), job["kind"], job["args"], job["key"], item["attempts"],
        job["attempts_max"], datetime.fromisoformat(job["run_until"]), job["resumed"],
    )  # fmt: skip
