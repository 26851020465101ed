"""Delivery options: the settings of delivering in the form of the room ``webhooks``."""

from __future__ import annotations

from app.settings.settings import Settings
from runtime.process import process_name
from runtime.sample import EventSample
from webhooks.breaker import BreakerOptions
from webhooks.error_policy import ErrorPolicy
from webhooks.worker_options import SlotOptions, WorkerOptions

__all__ = ["worker_options"]


def worker_options(settings: Settings, public_url: str, poll_seconds: float) -> WorkerOptions:
    """Return the options. ``poll_seconds``: the interval of the worker's own query for due subscriptions."""
    return WorkerOptions(
        name=process_name(),
        public_url=public_url,
        schedule_seconds=settings.retry_schedule_seconds,
        age_seconds_max=settings.retry_age_seconds_max,
        poll_seconds=poll_seconds,
        timeout_seconds=settings.delivery_timeout_seconds,
        retry_after_seconds_max=settings.retry_after_seconds_max,
        breaker=BreakerOptions(
            settings.breaker_failure_share,
            settings.breaker_attempts_min,
            open_seconds=settings.breaker_seconds,
            open_seconds_max=settings.breaker_seconds_max,
            disable_seconds=settings.disable_after_failing_seconds or None,
        ),
        errors=_error_policy(settings),
        appends_hub_topic=settings.rabbithub_append_hub_topic,
        log_sample=EventSample(settings.log_sample_share),
        slots=SlotOptions(
            settings.delivery_slots, settings.delivery_slots_per_subscription, settings.delivery_slots_per_host
        ),
    )


def _error_policy(settings: Settings) -> ErrorPolicy:
    errors_max = {"never": None, "first": 0, "limit": settings.rabbithub_errors_max}[settings.rabbithub_deactivate]
    requeues = settings.rabbithub_on_http_error == "requeue"
    return ErrorPolicy(requeues, errors_max, float(settings.rabbithub_errors_seconds or 1))
