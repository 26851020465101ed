"""The settings of subscribing reach the room `hub`."""

from typing import Any

from app.assembly.hub_options import hub_options
from app.settings.settings import Settings
from egress.guard import GuardPolicy

CHANGED: dict[str, Any] = {
    "lease_seconds_min": 61,
    "lease_seconds_default": 62,
    "lease_seconds_max": 63,
    "secret_over_http": "reject",
    "tell_lease_end": True,
    "sha1_hosts": ("old.example",),
    "strict_topic": True,
    "verification_slots": 3,
    "first_connect_seconds": 4.0,
    "verifications_per_minute_host": 5,
    "verifications_burst_host": 6,
    "verifications_per_minute_requester": 7,
    "verifications_burst_requester": 8,
    "pending_requester_max": 9,
    "subscriptions_host_max": 10,
    "subscriptions_requester_max": 11,
}
OF_ANOTHER_FORM = {"foreign_topics": "any", "publish_secret": "s", "pshb": "strict03"}


def test_each_setting_of_subscribing_is_the_option_of_its_name() -> None:
    """A new setting ``websub_*`` has to be added here, and to `HubOptions` under its name."""
    of_websub = {name.removeprefix("websub_") for name in Settings.model_fields if name.startswith("websub_")}
    given = {f"websub_{name}": value for name, value in (CHANGED | OF_ANOTHER_FORM).items()}
    options = hub_options(Settings(**given), "http://hub.example", GuardPolicy())

    assert (
        {name: getattr(options, name) for name in CHANGED},
        (options.foreign_topics, options.publish_secret, options.dialect.value),
        of_websub,
    ) == (CHANGED, ("any", b"s", "strict03"), CHANGED.keys() | OF_ANOTHER_FORM.keys())
