"""The states of a request, and what many requests of one pair make of its subscription (W3C WebSub 5.3)."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from egress.guard import GuardPolicy
from hub.form import Mode
from hub.intent import (
    Activate,
    Answered,
    Ask,
    Claimed,
    Consult,
    Intent,
    IntentState,
    IntentStep,
    Overtake,
    Overtaken,
    Unanswered,
    Withdraw,
    new_challenge,
    patience_seconds,
    step,
)
from hub.options import HubOptions
from tests.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = HubOptions("http://hub.example", GuardPolicy())
LENIENT = replace(OPTIONS, lenient_challenge=True)
TOPIC = "http://hub.example/topics/%61?&=ü"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def requested(mode: Mode = Mode.SUBSCRIBE, **changes: object) -> Intent:
    lease_seconds = 120 if mode is Mode.SUBSCRIBE else None
    intent = Intent(1, mode, TOPIC, "http://cb.example/?x", lease_seconds=lease_seconds, due_at=NOW)
    return replace(intent, **changes)


def asked(mode: Mode = Mode.SUBSCRIBE, challenge: str = "c", **changes: object) -> Intent:
    intent, _ = step(NOW, requested(mode, **changes), Claimed(challenge, NOW + seconds(20)), OPTIONS)
    return intent


def test_a_claim_asks_with_mode_topic_challenge_and_lease() -> None:
    """WS-40, WS-41: the topic as sent, in a fixed order."""
    intent = requested()

    assert step(NOW, intent, Claimed("c", NOW + seconds(20)), OPTIONS) == (
        replace(intent, state=IntentState.VERIFYING, due_at=NOW + seconds(20), attempts=1, asked_at=NOW, challenge="c"),
        (Ask((("hub.mode", "subscribe"), ("hub.topic", TOPIC), ("hub.challenge", "c"), ("hub.lease_seconds", "120"))),),
    )


def test_an_unsubscription_is_asked_without_a_lease_and_a_token_is_echoed() -> None:
    """WS-41, PS-07."""
    _, outputs = step(NOW, requested(Mode.UNSUBSCRIBE, verify_token="t"), Claimed("c", NOW + seconds(20)), OPTIONS)

    assert outputs == (
        Ask((("hub.mode", "unsubscribe"), ("hub.topic", TOPIC), ("hub.challenge", "c"), ("hub.verify_token", "t"))),
    )


@pytest.mark.parametrize("status", [200, 201, 202, 299])
def test_any_success_with_the_challenge_activates_from_the_time_of_the_get(status: int) -> None:
    """WS-41, WS-43, WS-103: and first supersedes what is older."""
    intent = asked()

    assert step(NOW + seconds(7), intent, Answered(1, status, b"c"), OPTIONS) == (
        replace(intent, state=IntentState.VERIFIED),
        (Overtake(), Activate(NOW + seconds(120))),
    )


def test_a_confirmed_unsubscription_withdraws() -> None:
    """WS-05."""
    intent = asked(Mode.UNSUBSCRIBE)

    assert step(NOW, intent, Answered(1, 200, b"c"), OPTIONS) == (
        replace(intent, state=IntentState.VERIFIED),
        (Overtake(), Withdraw()),
    )


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("status", [*range(300, 309), *range(400, 418), *range(500, 506), 600, 999])
def test_any_other_status_fails_even_with_the_challenge(mode: Mode, status: int) -> None:
    """WS-19, WS-44, TG-A: no output, so nothing changes."""
    intent = asked(mode)
    reason = f"the callback answered {status}"

    assert step(NOW, intent, Answered(1, status, b"c"), OPTIONS) == (
        replace(intent, state=IntentState.FAILED, reason=reason),
        (),
    )


@pytest.mark.parametrize(
    "body", [b"", b"challeng", b"challengex", b"CHALLENGE", b'"challenge"', b"challenge\n", b"\xff"]
)
def test_a_body_other_than_the_challenge_fails_the_verification(body: bytes) -> None:
    """WS-45, TG-A."""
    intent = asked(challenge="challenge")

    settled, outputs = step(NOW, intent, Answered(1, 200, body), OPTIONS)

    assert (settled.state, outputs) == (IntentState.FAILED, ())


def test_a_validator_s_yes_leads_to_the_callback_at_once() -> None:
    """WS-35, WS-36: and the verification has all its tries."""
    asking, outputs = step(NOW, requested(stage=IntentStep.VALIDATE), Claimed("c", NOW + seconds(20)), OPTIONS)

    assert outputs == (Consult(),)
    assert step(NOW, asking, Answered(1, 204, b""), OPTIONS) == (
        replace(asking, state=IntentState.REQUESTED, due_at=NOW, stage=IntentStep.VERIFY, stage_from=1),
        (),
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_validator_s_no_is_told_with_one_safe_line_of_its_text(status: int) -> None:
    """WS-35, WS-37: without a challenge."""
    asking = asked(stage=IntentStep.VALIDATE)
    refused, _ = step(NOW, asking, Answered(1, status, b" n\xffo\x00 way\r\nmore"), OPTIONS)
    telling, outputs = step(NOW, refused, Claimed("d", NOW + seconds(20)), OPTIONS)

    assert outputs == (Ask((("hub.mode", "denied"), ("hub.topic", TOPIC), ("hub.reason", "n\ufffdo way"))),)
    assert step(NOW, telling, Answered(2, 500, b""), OPTIONS) == (replace(telling, state=IntentState.DENIED), ())


@pytest.mark.parametrize("status", [200 - 1, 302, 404, 500])
def test_any_other_answer_of_a_validator_is_none(status: int) -> None:
    """WS-35."""
    waiting, _ = step(NOW, asked(stage=IntentStep.VALIDATE), Answered(1, status, b""), OPTIONS)

    assert (waiting.state, waiting.stage, waiting.due_at) == (
        IntentState.REQUESTED,
        IntentStep.VALIDATE,
        NOW + seconds(5),
    )


def test_a_denial_that_reaches_nobody_is_one_all_the_same() -> None:
    """WS-38."""
    ended, _ = step(NOW, asked(stage=IntentStep.DENY), Unanswered(1, "refused", final=True), OPTIONS)

    assert (ended.state, ended.reason) == (IntentState.DENIED, "refused")


def test_a_body_that_was_cut_is_not_the_challenge() -> None:
    """WS-45."""
    settled, outputs = step(NOW, asked(), Answered(1, 200, b"c", truncated=True), OPTIONS)

    assert (settled.state, outputs) == (IntentState.FAILED, ())


@pytest.mark.parametrize(
    ("body", "state"), [(b"c \r\n", IntentState.VERIFIED), (b" c", IntentState.FAILED), (b"c\0", IntentState.FAILED)]
)
def test_a_lenient_hub_forgives_white_space_behind_the_challenge(body: bytes, state: IntentState) -> None:
    """WS-43."""
    settled, _ = step(NOW, asked(), Answered(1, 200, body), LENIENT)

    assert settled.state is state


def test_no_answer_is_tried_twice_more_with_fresh_challenges() -> None:
    """WS-42, WS-46."""
    intent, now, seen = requested(), NOW, []
    for challenge in ("one", "two", "three"):
        intent, _ = step(now, intent, Claimed(challenge, now + seconds(20)), OPTIONS)
        intent, outputs = step(now, intent, Unanswered(intent.attempts, "refused"), OPTIONS)
        seen.append((intent.state, (intent.due_at - now).total_seconds(), outputs))
        now = intent.due_at

    assert seen == [(IntentState.REQUESTED, 5, ()), (IntentState.REQUESTED, 25, ()), (IntentState.FAILED, 20, ())]


def test_no_answer_is_final_where_retries_are_off_or_the_target_is_refused() -> None:
    """WS-46, WS-100."""
    intent = asked()
    once = replace(OPTIONS, verification_retries=())

    assert [
        step(NOW, intent, Unanswered(1, "timeout"), once),
        step(NOW, intent, Unanswered(1, "not allowed", final=True), OPTIONS),
    ] == [
        (replace(intent, state=IntentState.FAILED, reason="timeout"), ()),
        (replace(intent, state=IntentState.FAILED, reason="not allowed"), ()),
    ]


def test_a_claim_whose_process_died_is_claimed_again_when_its_time_is_up() -> None:
    crashed = asked(challenge="old")

    intent, _ = step(crashed.due_at, crashed, Claimed("new", crashed.due_at + seconds(20)), OPTIONS)

    assert [
        (intent.state, intent.attempts, intent.challenge),
        step(NOW, intent, Answered(1, 200, b"old"), OPTIONS),
        step(NOW, intent, Answered(2, 200, b"old"), OPTIONS)[0].state,
    ] == [(IntentState.VERIFYING, 2, "new"), (intent, ()), IntentState.FAILED]


@pytest.mark.parametrize(
    "state", [IntentState.VERIFIED, IntentState.FAILED, IntentState.SUPERSEDED, IntentState.REQUESTED]
)
def test_an_outcome_that_comes_too_late_changes_nothing(state: IntentState) -> None:
    """WS-103."""
    intent = replace(asked(), state=state)

    assert [
        step(NOW, intent, Answered(1, 200, b"c"), OPTIONS),
        step(NOW, intent, Unanswered(1, "reset"), OPTIONS),
    ] == [(intent, ()), (intent, ())]


@pytest.mark.parametrize("state", IntentState)
def test_only_open_requests_are_superseded(state: IntentState) -> None:
    """WS-103."""
    is_open = state in (IntentState.REQUESTED, IntentState.VERIFYING)
    intent = replace(asked(), state=state)

    assert step(NOW, intent, Overtaken(), OPTIONS) == (
        replace(intent, state=IntentState.SUPERSEDED) if is_open else intent,
        (),
    )


def test_challenges_are_long_random_and_safe_in_urls() -> None:
    """WS-42."""
    challenges = {new_challenge() for _ in range(1000)}

    assert (len(challenges), all(re.fullmatch(r"[A-Za-z0-9_-]{43}", one) for one in challenges)) == (1000, True)


@pytest.mark.parametrize(
    ("wish", "lease_seconds"),
    [
        (None, 864_000),
        (1, 60),
        (59, 60),
        (60, 60),
        (120, 120),
        (2_592_000, 2_592_000),
        (2_592_001, 2_592_000),
        (10**12, 2_592_000),
    ],
)
def test_a_lease_is_always_bounded(wish: int | None, lease_seconds: int) -> None:
    """WS-03, WS-12, WS-47, WS-49, WS-68, TG-C."""
    assert OPTIONS.lease_seconds(wish) == lease_seconds


def test_the_pause_grows_with_each_failed_verification() -> None:
    """AB-01."""
    assert [patience_seconds(failures) for failures in (0, 2, 3, 4, 5, 11, 12, 10_000)] == [
        0,
        0,
        1,
        2,
        4,
        256,
        300,
        300,
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_seconds_min": 0},
        {"lease_seconds_min": 100, "lease_seconds_default": 99},
        {"lease_seconds_max": 1000},
        {"verification_slots": 0},
        {"verifications_per_minute_host": 0},
        {"verification_deadline_seconds": 0},
        {"verification_retries": (1.0,) * 11},
    ],
)
def test_options_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be|does not hold"):
        replace(OPTIONS, **wrong)


# --- many requests of one pair --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subscription:
    """What the pair's subscription is, and which request made it so."""

    made_by: int
    lease_until: datetime


class OnePair(RuleBasedStateMachine):
    """Requests of one pair are made, claimed, answered, left by crashed processes and come late, in any order; the
    outputs are carried out in memory as the service carries them out in one transaction.

    The model needs no history: the pair's last word is the newest verified request's (WS-103), and nothing but a
    verified request ever changes the subscription (WS-18, WS-19).
    """

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.intents: dict[int, Intent] = {}
        self.subscription: Subscription | None = None
        self.challenges: list[str] = []
        self.gets = 0

    @rule(mode=st.sampled_from(Mode), lease_seconds=st.integers(60, 300))
    def request(self, mode: Mode, lease_seconds: int) -> None:
        number = len(self.intents) + 1
        lease = lease_seconds if mode is Mode.SUBSCRIBE else None
        self.intents[number] = requested(mode, id=number, due_at=self.now, lease_seconds=lease)

    @rule(target=claims)
    def claim(self) -> object:
        due = [
            intent
            for intent in self.intents.values()
            if intent.state in (IntentState.REQUESTED, IntentState.VERIFYING) and intent.due_at <= self.now
        ]
        if not due:
            return multiple()
        challenge = new_challenge()
        intent, (ask,) = step(self.now, due[0], Claimed(challenge, self.now + seconds(20)), OPTIONS)
        assert isinstance(ask, Ask)
        assert challenge not in self.challenges
        self.challenges.append(challenge)
        self.gets += 1
        self.intents[intent.id] = intent
        return (intent.id, intent.attempts, challenge)

    @rule(
        claim=claims,
        status=st.sampled_from([200, 204, 299, 302, 404, 410, 500]),
        echo=st.sampled_from(["own", "old", ""]),
    )
    def answer(self, claim: tuple[int, int, str], status: int, echo: str) -> None:
        """Not consumed: an answer may be reported again, and a process may report after its claim has ended."""
        number, fence, challenge = claim
        body = {"own": challenge, "old": self.challenges[0], "": ""}[echo].encode()
        self.settle(number, Answered(fence, status, body))

    @rule(claim=consumes(claims), final=st.booleans())
    def lose(self, claim: tuple[int, int, str], final: bool) -> None:
        number, fence, _ = claim
        self.settle(number, Unanswered(fence, "reset", final))

    @rule(delay=st.sampled_from([1, 6, 21, 26, 100]))
    def wait(self, delay: int) -> None:
        self.now += seconds(delay)
        if self.subscription is not None and self.subscription.lease_until <= self.now:
            self.subscription = None

    def settle(self, number: int, happened: Answered | Unanswered) -> None:
        before = self.subscription
        intent, outputs = step(self.now, self.intents[number], happened, OPTIONS)
        self.intents[number] = intent
        for output in outputs:
            match output:
                case Overtake():
                    for older in range(1, number):
                        self.intents[older], _ = step(self.now, self.intents[older], Overtaken(), OPTIONS)
                case Activate():
                    self.subscription = Subscription(number, output.lease_until)
                case Withdraw():
                    self.subscription = None
        if intent.state is not IntentState.VERIFIED:
            assert self.subscription == before

    @invariant()
    def the_newest_verified_request_has_the_last_word(self) -> None:
        verified = [intent for intent in self.intents.values() if intent.state is IntentState.VERIFIED]
        newest = verified[-1] if verified else None
        if newest is None or newest.mode is Mode.UNSUBSCRIBE:
            assert self.subscription is None
            return
        assert newest.asked_at is not None
        assert newest.lease_seconds is not None
        lease_until = newest.asked_at + seconds(newest.lease_seconds)
        expected = Subscription(newest.id, lease_until) if lease_until > self.now else None
        if self.subscription is not None and self.subscription.lease_until <= self.now:
            self.subscription = None  # verified so late that its lease is over already
        assert self.subscription == expected

    @invariant()
    def a_request_is_asked_at_most_three_times_unless_processes_die(self) -> None:
        assert self.gets == sum(intent.attempts for intent in self.intents.values())
        for intent in self.intents.values():
            if intent.state is IntentState.REQUESTED:
                assert intent.attempts <= 2

    @invariant()
    def nothing_older_than_a_verified_request_is_open(self) -> None:
        last = max((n for n, intent in self.intents.items() if intent.state is IntentState.VERIFIED), default=0)
        assert [
            n for n, i in self.intents.items() if n < last and i.state in (IntentState.REQUESTED, IntentState.VERIFYING)
        ] == []


OnePair.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestOnePair = OnePair.TestCase
