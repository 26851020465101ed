"""Verification: ask callbacks to confirm requests, and carry out confirmed ones (W3C WebSub 5.3).

    claim (due rows, for a limited time) --> GET, one deadline --> intent.step --> one transaction:
    close the request, supersede older ones, activate or end the subscription

Where a topic has a validator, the hub first asks its publisher whether the subscriber is allowed. That is a POST of
JSON with ``callback``, ``topic`` and ``requester`` (WS-35). Where foreign topics need their own URL, the topic is asked
for it (WS-22). A refused subscriber gets a GET with ``hub.mode=denied`` (WS-37).

Requests that are claimed by a process that dies come due again by themselves when the claim's time is up. An outcome is
committed under the number of its claim; one that comes too late finds another number and is dropped. When the database
does not answer, the outcome is dropped as well: the callback is then asked again, which is harmless.

The same service ends subscriptions whose lease is over and drops their open deliveries (WS-48, DL-10). Delivery workers
check leases themselves before each send; this keeps the tables true and small.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row, Session
from db.secret_box import SecretBox, SecretBoxError
from egress.client import Outbound, ReadLimits, Request
from egress.failure import Blocked, OutboundError
from egress.url import Target, UrlRefused, parse_target
from hub.acceptance import request_context
from hub.form import Mode, Verify
from hub.intent import (
    Activate,
    Answered,
    Ask,
    Claimed,
    Consult,
    Intent,
    IntentState,
    IntentStep,
    Output,
    Overtake,
    Unanswered,
    Withdraw,
    new_challenge,
    step,
)
from hub.options import HubOptions
from hub.rabbithub.resource import activate, authorization_of, withdraw
from hub.refresh import refresh
from hub.requester import bucket_of
from hub.revocation import tell
from hub.self_url import TopicSilent, own_url_of
from hub.topic_url import matching_text, url_of
from runtime.pause import pause
from runtime.wake import Wake
from webhooks.subscriber import secret_context

__all__ = ["Verification"]

_log = structlog.get_logger(__name__)

_COMMIT_SECONDS = 10.0
"""The time by which a claim is longer than its GET."""

_BATCH_ROWS_MAX = 5_000
# A challenge has 43 bytes; head and body share the limit.
_READ_LIMITS = ReadLimits(head_bytes_max=8 * 1024, read_bytes_max=12 * 1024, keep_bytes_max=4 * 1024)


class Verification:
    """The service; the acceptance of a request notifies ``wake``."""

    name = "verification"

    def __init__(
        self, database: Database, outbound: Outbound, secret_box: SecretBox, options: HubOptions, wake: Wake
    ) -> None:
        self._database = database
        self._outbound = outbound
        self._secret_box = secret_box
        self._options = options
        self._wake = wake
        self._stopping = asyncio.Event()
        self._sweep_now = asyncio.Event()
        self._in_flight = 0
        self._unproven = 0

    def sweep(self) -> None:
        """End subscriptions now: a lease is over."""
        self._sweep_now.set()

    def stop(self) -> None:
        """Soft stop: claim no more, finish the GETs that are under way (one deadline at most)."""
        self._stopping.set()
        self._sweep_now.set()
        self._wake.notify()

    async def run(self) -> None:
        """Verify and sweep until stopped. Cancelling is safe: open claims come due again by themselves."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep_regularly(), name="lease sweep")
            while not self._stopping.is_set():
                for row in await self._claim():
                    self._wake.busy()
                    self._in_flight += 1
                    self._unproven += not row["is_proven"]
                    task = tasks.create_task(self._verify(row), name=f"verification {row['id']}")
                    task.add_done_callback(partial(self._done, not row["is_proven"]))
                await self._wake.wait()

    def _done(self, was_unproven: bool, _task: asyncio.Task[None]) -> None:
        self._in_flight -= 1
        self._unproven -= was_unproven
        self._wake.notify()  # another request of this host may have been waiting

    async def _claim(self) -> Sequence[Row]:
        slots = self._options.verification_slots
        free, unproven_free = slots - self._in_flight, max(slots // 2, 1) - self._unproven
        if free <= 0:
            return ()
        claim_seconds = self._options.verification_deadline_seconds + _COMMIT_SECONDS
        try:
            async with self._database.transaction() as session:
                await session.execute("intent.claim_lock")
                return await session.fetch("intent.claim", free, claim_seconds, max(unproven_free, 0))
        except DatabaseError as error:
            _log.warning("verification_claim_failed", error=str(error))
            return ()

    async def _verify(self, row: Row) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        claimed_at: datetime = row["claimed_at"]
        claimed = Claimed(new_challenge(), row["claimed_until"])
        intent, (output,) = step(claimed_at, _intent(row), claimed, self._options)
        try:
            secret = self._open_secret(row)
            asks_topic = isinstance(output, Consult) and row["validator_url"] is None
            happened = await (self._ask_topic(intent) if asks_topic else self._ask(intent, row, output))
        except SecretBoxError as error:
            _log.error("intent_secret_lost", intent=intent.id, error=str(error))
            secret, happened = None, Unanswered(intent.attempts, "the secret cannot be read any more", final=True)
        # The database's time, carried on by our monotonic clock.
        now = claimed_at + timedelta(seconds=loop.time() - started_at)
        intent, outputs = step(now, intent, happened, self._options)
        try:
            await self._commit(row, secret, intent, outputs)
        except DatabaseError as error:
            _log.warning("verification_not_recorded", intent=intent.id, error=str(error))

    def _open_secret(self, row: Row) -> bytes | None:
        """Open the secret before the GET: a subscription must not become active without its signature."""
        if row["sealed"] is None:
            return None
        return self._secret_box.open(row["key_id"], row["sealed"], request_context(row["tenant"], row["identity"]))

    async def _ask(self, intent: Intent, row: Row, output: Output) -> Answered | Unanswered:
        deadline_seconds = self._options.verification_deadline_seconds
        fence = intent.attempts
        try:
            request = self._request(intent, row, output, deadline_seconds)
            async with asyncio.timeout(deadline_seconds + 1):
                response = await self._outbound.send(request)
        except UrlRefused as error:
            return Unanswered(fence, error.reason, final=True)
        except OutboundError as error:
            return Unanswered(fence, error.detail, final=isinstance(error, Blocked))
        except TimeoutError:
            return Unanswered(fence, "no answer within the time allowed")
        return Answered(fence, response.status, response.body, response.truncated)

    async def _ask_topic(self, intent: Intent) -> Answered | Unanswered:
        """Check, in place of a validator, whether a foreign topic's own URL is the requested one (WS-22)."""
        try:
            own_url = await own_url_of(self._outbound, self._options, intent.topic_url)
        except TopicSilent as error:
            return Unanswered(intent.attempts, str(error))
        if own_url is None or matching_text(own_url) == matching_text(intent.topic_url):
            return Answered(intent.attempts, 204, b"")
        return Answered(intent.attempts, 403, f"the topic's own URL is {own_url}".encode())

    def _request(self, intent: Intent, row: Row, output: Output, deadline_seconds: float) -> Request:
        """Send the request on a fresh connection: on a kept one the client may repeat it, and a challenge is
        used once.
        """
        if isinstance(output, Consult):
            asked = {"callback": intent.callback, "topic": intent.topic_url, "requester": row["requester"]}
            headers = (("content-type", "application/json"),)
            target = self._target(row["validator_url"] or "")
            body = json.dumps(asked).encode()
            return Request("POST", target, headers, body, deadline_seconds, reuse=False, limits=_READ_LIMITS)
        assert isinstance(output, Ask)
        target = self._target(intent.callback).with_query(output.parameters)
        authorization = authorization_of(self._secret_box, row)
        own = () if authorization is None else (("authorization", authorization),)
        return Request(
            "GET", target, own, b"", deadline_seconds, reuse=False, limits=_READ_LIMITS,
            connect_seconds_max=self._connect_seconds(intent),
        )  # fmt: skip

    def _connect_seconds(self, intent: Intent) -> float | None:
        """Return the connection's time limit. A first try is short: the address is untrusted, and another try follows
        (FS-04).
        """
        is_first = intent.attempts == intent.stage_from + 1
        is_last = intent.verify is Verify.SYNC or not self._options.verification_retries
        return self._options.first_connect_seconds if is_first and not is_last else None

    def _target(self, url: str) -> Target:
        return parse_target(url, self._options.url_policy)

    async def _commit(self, row: Row, secret: bytes | None, intent: Intent, outputs: Sequence[Output]) -> None:
        async with self._database.transaction() as session:
            if await self._decide(session, row, intent) is None:
                _log.info("intent_outcome_late", intent=intent.id)
                return
            for output in outputs:
                await self._carry_out(session, row, secret, output)
        _log.info(
            f"intent_{intent.state}", intent=intent.id, mode=str(intent.mode), topic=row["topic"],
            callback_host=row["callback_host"], attempts=intent.attempts, reason=intent.reason,
        )  # fmt: skip

    async def _decide(self, session: Session, row: Row, intent: Intent) -> Row | None:
        if intent.state is not IntentState.REQUESTED:
            return await session.fetchrow("intent.close", intent.id, intent.attempts, str(intent.state), intent.reason)
        if intent.stage != row["stage"]:
            return await session.fetchrow(
                "intent.advance", intent.id, intent.attempts, str(intent.stage), intent.denial, intent.lease_seconds
            )
        again = await session.fetchrow("intent.retry", intent.id, intent.attempts, intent.due_at, intent.reason)
        if again is not None:
            # The order of `acceptance`, so that the two cannot deadlock.
            if row["requester_network"] is not None:
                await session.execute("intent.charge", "", bucket_of(row["requester_network"]))
            await session.execute("intent.charge", "", row["callback_host"])
        return again

    async def _carry_out(self, session: Session, row: Row, secret: bytes | None, output: Output) -> None:
        match output:
            case Overtake():
                await session.execute("intent.overtake", row["tenant"], row["identity"], row["id"])
            case Activate():
                await self._activate(session, row, secret, output.lease_until)
            case Withdraw():
                await self._withdraw(session, row)
            case Ask() | Consult():
                raise AssertionError("an answer never leads to another question")
            case _:
                assert_never(output)

    async def _activate(self, session: Session, row: Row, secret: bytes | None, lease_until: datetime) -> None:
        subscription = await self._active(session, row, lease_until)
        await session.execute("intent.forget_secrets", [subscription["id"]])
        if secret is None:
            return
        number = subscription["secret_number"]
        sealed = self._secret_box.seal(secret, secret_context(subscription["id"], number))
        await session.execute(
            "intent.keep_secret", subscription["id"], number, row["tenant"], sealed.key_id, sealed.ciphertext
        )

    async def _active(self, session: Session, row: Row, lease_until: datetime) -> Row:
        if row["rabbithub"] is not None:
            return await activate(session, self._secret_box, row, lease_until)
        subscription = await session.fetchrow(
            "intent.activate",
            f"sub_{secrets.token_hex(12)}",
            row["tenant"],
            row["topic"],
            row["foreign_url"] or url_of(self._options.public_url, row["topic"]),
            row["callback"],
            row["signature_method"],
            lease_until,
            row["identity"],
            row["verify"] is not None,
            row["permanent"],
            row["verify_token"] if row["permanent"] else None,
            row["callback_host"],
            row["requester_network"],
        )
        assert subscription is not None
        return subscription

    async def _withdraw(self, session: Session, row: Row) -> None:
        if row["rabbithub"] is not None:
            await withdraw(session, row)
            return
        subscription = await session.fetchrow("intent.withdraw", row["tenant"], row["identity"])
        if subscription is not None:
            await session.execute("intent.forget_secrets", [subscription["id"]])
            # The sweep handles deliveries beyond this batch, and those that an overlapping fan-out adds.
            await session.execute("intent.drop_deliveries_of", subscription["id"], _BATCH_ROWS_MAX)

    async def _sweep_regularly(self) -> None:
        while not self._stopping.is_set():
            self._sweep_now.clear()
            try:
                await self._sweep()
            except DatabaseError as error:
                _log.warning("lease_sweep_failed", error=str(error))
            await pause(self._sweep_now, self._options.sweep_seconds)

    async def _sweep(self) -> None:
        async with self._database.transaction() as session:
            over = await session.fetch("intent.expire", _BATCH_ROWS_MAX)
            ended = [row["id"] for row in over]
            if ended:
                await session.execute("intent.forget_secrets", ended)
            await refresh(session, self._secret_box, self._options)
            if ended and self._options.tell_lease_end:
                await tell(session, self._options, over, "the lease has ended")
        dropped = await self._database.execute("intent.drop_deliveries", _BATCH_ROWS_MAX)
        await self._database.execute("intent.purge", _BATCH_ROWS_MAX)
        if ended or dropped:
            _log.info("leases_ended", subscriptions=len(ended), deliveries_dropped=dropped)


def _intent(row: Row) -> Intent:
    """Return the request as it was before this claim."""
    return Intent(
        id=row["id"],
        mode=Mode(row["mode"]),
        topic_url=row["topic_url"],
        callback=row["callback"],
        lease_seconds=row["lease_seconds"],
        due_at=row["due_at"],
        verify_token=row["verify_token"],
        state=IntentState(row["state"]),
        attempts=row["attempts"],
        stage=IntentStep(row["stage"]),
        stage_from=row["stage_from"],
        denial=row["denial"],
        verify=Verify(row["verify"]) if row["verify"] else None,
    )
