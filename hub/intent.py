"""Intent verification: the states of one request, without I/O (W3C WebSub 5.3; WS-18, WS-19, WS-40..WS-49, WS-103).

    step(now, intent, input, options) -> (intent, outputs)

An `Intent` is immutable. The caller stores the new one and carries out the outputs, in order and in the same
transaction. ``now`` is the database's time. Inputs and their results:

    ========== ================== ============================================= ==========================
    input      in state           new state                                     outputs
    ========== ================== ============================================= ==========================
    Claimed    requested, or      verifying until the claim ends                Ask: the GET's parameters,
               verifying and due                                                or Consult the publisher
    Answered   verifying,         verified: 2xx and exactly the challenge       Overtake, then Activate
               same fence                                                       or Withdraw
               verifying,         failed: any other answer is final             none
               same fence
    Unanswered verifying,         requested, due after a pause; failed after    none
               same fence         the last try or where no retry can help
    Overtaken  requested or       superseded                                    none
               verifying
    any        anything else      unchanged: the outcome comes too late         none
    ========== ================== ============================================= ==========================

Where a publisher decides about subscribers, its answer comes first, and the callback gets a refusal (WS-35..37). A
stage is the purpose of the next claim; each stage has its own tries::

    validate --2xx--> verify --> verified, failed
        | 401, 403
        v
      deny -- any answer, or none after the last try --> denied

Only Activate and Withdraw change a subscription. A failed or denied request leaves it unchanged (WS-19), because the
subscriber may not have sent it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hub.form import Mode, Verify
from hub.options import HubOptions

__all__ = [
    "Activate",
    "Answered",
    "Ask",
    "Claimed",
    "Consult",
    "Input",
    "Intent",
    "IntentState",
    "IntentStep",
    "Output",
    "Overtake",
    "Overtaken",
    "Unanswered",
    "Withdraw",
    "denial_parameters",
    "new_challenge",
    "patience_seconds",
    "step",
]

_CHALLENGE_BYTES = 32
_FAILURES_FORGIVEN = 3
_PATIENCE_SECONDS_MAX = 300
_WHITE_SPACE = b" \t\r\n"
_REASON_CHARACTERS_MAX = 200


class IntentState(StrEnum):
    """States of a request; the first two are open, the others final."""

    REQUESTED = "requested"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    DENIED = "denied"


class IntentStep(StrEnum):
    """The purpose of a claim of an open request."""

    VALIDATE = "validate"
    VERIFY = "verify"
    DENY = "deny"


_OPEN = frozenset({IntentState.REQUESTED, IntentState.VERIFYING})


@dataclass(frozen=True, slots=True)
class Intent:
    """One accepted request. Its repr hides callback, token and challenge (WS-106).

    Attributes:
        id: rises in the order of acceptance.
        mode: subscribe or unsubscribe.
        topic_url: as sent (WS-40).
        callback: as sent (WS-24).
        lease_seconds: the granted lease; None to unsubscribe.
        verify_token: to be echoed, if given.
        state: see `IntentState`.
        due_at: not to be claimed before; while verifying, the end of the claim.
        attempts: claims so far. The number of the latest claim is its fence.
        asked_at: start of the latest GET; a lease counts from here (WS-41).
        challenge: of the latest GET; never used again (WS-42).
        reason: why it failed or is tried again, for people.
        stage: see `IntentStep`.
        stage_from: attempts made before this stage.
        denial: the reason for the callback, in the stage of that name.
        verify: of PubSubHubbub 0.3: sync is never tried again, async also after an answer (PS-05, PS-06).
    """

    id: int
    mode: Mode
    topic_url: str
    callback: str = field(repr=False)
    lease_seconds: int | None
    due_at: datetime
    verify_token: str | None = field(default=None, repr=False)
    state: IntentState = IntentState.REQUESTED
    attempts: int = 0
    asked_at: datetime | None = None
    challenge: str | None = field(default=None, repr=False)
    reason: str | None = None
    stage: IntentStep = IntentStep.VERIFY
    stage_from: int = 0
    denial: str | None = None
    verify: Verify | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A process claimed the request. It sends a GET with this challenge and must report the outcome before
    ``until``.
    """

    challenge: str = field(repr=False)
    until: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """The callback answered the GET of the claim ``fence``; ``truncated``: ``body`` is only the beginning."""

    fence: int
    status: int
    body: bytes = field(repr=False)
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The GET of the claim ``fence`` got no HTTP answer; ``final``: another try is useless (the target is refused)."""

    fence: int
    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A newer request of the same pair was verified."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a GET to the callback with these parameters behind its own query (WS-24)."""

    parameters: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask the topic's publisher whether this subscriber is welcome (WS-35)."""


@dataclass(frozen=True, slots=True)
class Overtake:
    """Supersede every open request of the same pair that is older than this one (WS-103)."""


@dataclass(frozen=True, slots=True)
class Activate:
    """Make the pair's subscription, or replace its lease and secret entirely (WS-18)."""

    lease_until: datetime


@dataclass(frozen=True, slots=True)
class Withdraw:
    """End the pair's subscription, if there is one."""


Input = Claimed | Answered | Unanswered | Overtaken
Output = Ask | Consult | Overtake | Activate | Withdraw
Result = tuple[Intent, tuple[Output, ...]]


def step(now: datetime, intent: Intent, happened: Input, options: HubOptions) -> Result:
    """Make one transition; see the table above. Claiming an intent in another state is a programming error."""
    match happened:
        case Claimed():
            return _claim(now, intent, happened)
        case Overtaken():
            return (replace(intent, state=IntentState.SUPERSEDED) if intent.state in _OPEN else intent), ()
        case Answered() | Unanswered():
            if intent.state is not IntentState.VERIFYING or happened.fence != intent.attempts:
                return intent, ()
            if isinstance(happened, Unanswered):
                return _try_again(now, intent, happened, options), ()
            return _answered(now, intent, happened, options)


def _answered(now: datetime, intent: Intent, answer: Answered, options: HubOptions) -> Result:
    match intent.stage:
        case IntentStep.VALIDATE:
            return _obey(now, intent, answer, options), ()
        case IntentStep.VERIFY:
            return _judge(now, intent, answer, options)
        case IntentStep.DENY:
            return replace(intent, state=IntentState.DENIED), ()


def new_challenge() -> str:
    """Return 256 random bits in base64url without padding: 43 of A-Z a-z 0-9 - _ (WS-42)."""
    return secrets.token_urlsafe(_CHALLENGE_BYTES)


def patience_seconds(failures: int) -> float:
    """Return how long a new request of a pair waits after some failures in a row (AB-01). The first few wait 0 s, then
    1, 2, 4 and up to 300 seconds.
    """
    if failures < _FAILURES_FORGIVEN:
        return 0.0
    return float(min(2 ** min(failures - _FAILURES_FORGIVEN, 30), _PATIENCE_SECONDS_MAX))


def _claim(now: datetime, intent: Intent, claim: Claimed) -> Result:
    assert intent.state in _OPEN
    assert intent.due_at <= now < claim.until
    assert claim.challenge != intent.challenge
    asked = replace(
        intent,
        state=IntentState.VERIFYING,
        due_at=claim.until,
        attempts=intent.attempts + 1,
        asked_at=now,
        challenge=claim.challenge,
    )
    match intent.stage:
        case IntentStep.VALIDATE:
            return asked, (Consult(),)
        case IntentStep.VERIFY:
            return asked, (Ask(tuple(_parameters(asked, claim.challenge))),)
        case IntentStep.DENY:
            return asked, (Ask(denial_parameters(intent.topic_url, intent.denial)),)


def denial_parameters(topic_url: str, reason: str | None) -> tuple[tuple[str, str], ...]:
    """Return the parameters of the GET for a denial. It has no challenge, because it asks nothing (WS-37)."""
    told = (("hub.reason", reason),) if reason else ()
    return (("hub.mode", "denied"), ("hub.topic", topic_url), *told)


def _obey(now: datetime, intent: Intent, answer: Answered, options: HubOptions) -> Intent:
    """Apply the publisher's answer: 2xx allows, 401 and 403 deny with their text as the reason. Any other status is no
    answer.
    """
    onward = replace(intent, state=IntentState.REQUESTED, due_at=now, stage_from=intent.attempts, reason=None)
    if 200 <= answer.status <= 299:
        return replace(onward, stage=IntentStep.VERIFY)
    if answer.status in (401, 403) and intent.verify is not None:  # 0.3 knows no hub.mode=denied (PS-17)
        reason = _first_line(answer.body) or "the topic's publisher denies it"
        return replace(intent, state=IntentState.FAILED, reason=reason)
    if answer.status in (401, 403):
        # A denied request has no lease any more.
        return replace(onward, stage=IntentStep.DENY, denial=_first_line(answer.body), lease_seconds=None)
    missing = Unanswered(answer.fence, f"the topic's validator answered {answer.status}")
    return _try_again(now, intent, missing, options)


def _first_line(body: bytes) -> str:
    line = body.decode("utf-8", "replace").strip().partition("\n")[0]
    return "".join(character for character in line if character.isprintable())[:_REASON_CHARACTERS_MAX].strip()


def _parameters(intent: Intent, challenge: str) -> Sequence[tuple[str, str]]:
    """Return the parameters in a fixed order: the lease only to subscribe (WS-41), the token only if given
    (PS-07).
    """
    parameters = [("hub.mode", str(intent.mode)), ("hub.topic", intent.topic_url), ("hub.challenge", challenge)]
    if intent.lease_seconds is not None:
        parameters.append(("hub.lease_seconds", str(intent.lease_seconds)))
    if intent.verify_token is not None:
        parameters.append(("hub.verify_token", intent.verify_token))
    return parameters


def _judge(now: datetime, intent: Intent, answer: Answered, options: HubOptions) -> Result:
    reason = _objection(intent, answer, options)
    if reason and intent.verify is Verify.ASYNC and answer.status != 404:
        return _try_again(now, intent, Unanswered(answer.fence, reason), options), ()
    if reason:
        return replace(intent, state=IntentState.FAILED, reason=reason), ()
    verified = replace(intent, state=IntentState.VERIFIED, reason=None)
    if intent.mode is Mode.UNSUBSCRIBE:
        return verified, (Overtake(), Withdraw())
    assert intent.asked_at is not None
    assert intent.lease_seconds is not None
    return verified, (Overtake(), Activate(intent.asked_at + timedelta(seconds=intent.lease_seconds)))


def _objection(intent: Intent, answer: Answered, options: HubOptions) -> str:
    """Return why the answer does not confirm the intent (WS-43..WS-45); empty when it does."""
    if not 200 <= answer.status <= 299:
        return f"the callback answered {answer.status}"
    assert intent.challenge is not None
    body = answer.body.rstrip(_WHITE_SPACE) if options.lenient_challenge else answer.body
    if answer.truncated or not hmac.compare_digest(body, intent.challenge.encode("ascii")):
        return f"the callback answered {answer.status} without echoing the challenge"
    return ""


def _try_again(now: datetime, intent: Intent, missing: Unanswered, options: HubOptions) -> Intent:
    """Try again after connection-level errors only, with a new challenge each time (WS-46)."""
    by_verify = {None: options.verification_retries, Verify.SYNC: (), Verify.ASYNC: options.async_retries}
    pauses: tuple[float, ...] = by_verify[intent.verify]
    tries = intent.attempts - intent.stage_from
    if missing.final or tries > len(pauses):
        ended = IntentState.DENIED if intent.stage is IntentStep.DENY else IntentState.FAILED
        return replace(intent, state=ended, reason=missing.reason)
    due_at = now + timedelta(seconds=pauses[tries - 1])
    return replace(intent, state=IntentState.REQUESTED, due_at=due_at, reason=missing.reason)
