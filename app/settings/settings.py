"""Settings: environment variables ``HOOKWIRE_*`` or a TOML file, read once into one frozen object.

The file is ``hookwire.toml`` in the working directory or the one that ``HOOKWIRE_CONFIG`` names; a variable wins over
the file. An unknown key is refused with the nearest known name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from app.settings.access import AccessSettings
from app.settings.address import LISTEN, address_of, amqp_place
from app.settings.amqp_source import AmqpSourceSettings, AmqpUrl, check_broker, route_of
from app.settings.chat import ChatSettings
from app.settings.database import DatabaseSettings
from app.settings.file import PREFIX, SettingsFile, SettingsRefused, is_foreign, read_file, unknown_variables
from app.settings.jobs import JobsSettings
from app.settings.kafka_source import KafkaSourceSettings
from app.settings.mistake import words_of
from app.settings.names import NameSettings
from app.settings.outbox import OutboxSettings
from app.settings.part import COMMAS, Texts
from app.settings.pipeline import PipelineSettings
from app.settings.rabbithub import RabbitHubSettings
from app.settings.websub import VerificationSettings
from relay.amqp.name import EXCHANGE_NAME_PATTERN
from relay.source import SourceRoute

__all__ = ["PREFIX", "Settings", "SettingsRefused", "load_settings"]

_PUBLIC_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


class Settings(
    AccessSettings, AmqpSourceSettings, ChatSettings, DatabaseSettings, JobsSettings, KafkaSourceSettings, NameSettings,
    OutboxSettings, PipelineSettings, RabbitHubSettings, VerificationSettings,
):  # fmt: skip
    """All settings. Times are in seconds, sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=False)

    profile: Literal["development", "production"] = Field(
        "development", description="development listens on loopback only and allows callbacks to loopback."
    )
    listen: str = Field(
        LISTEN,
        description="Address and port of the HTTP API; port 0 takes a free one. Default [::1]:8080 without IPv4.",
    )
    metrics_listen: str = Field(
        "",
        description="Address and port for /healthz, /readyz and /metrics alone, also of a process without the role "
        "api; they need no key. /metrics answers only to host names that the hub knows (HOSTS). Empty: no such port. "
        "Port 0 takes a free one.",
    )
    public_url: str = Field(
        "",
        description="URL of this hub for others; default http://<listen>, with localhost for all addresses.",
    )
    amqp_url: AmqpUrl = Field(
        None, description="amqp:// or amqps://user:secret@host:5672/vhost; default: no AMQP sink."
    )
    amqp_tls_ca: Path | None = Field(
        None,
        description="For amqps://: PEM file of the authorities of the broker's certificate; default: the system's.",
    )
    amqp_tls_certificate: Path | None = Field(
        None, description="For amqps://: PEM file with our certificate, for a broker that requires one."
    )
    amqp_tls_key: Path | None = Field(
        None, description="PEM file with its key; default: it is in the certificate's file."
    )
    amqp_exchange: str = Field(
        "hookwire",
        pattern=EXCHANGE_NAME_PATTERN,
        description="Durable topic exchange that events are published to.",
    )
    relay_headers: bool = Field(
        True, description="Whether Kafka records and AMQP messages carry hookwire-*; hookwire pipeline needs them."
    )
    xmpp_account: str = Field(
        "", max_length=1000, description="For hookwire monitor: the XMPP account of the sender, bot@example.org."
    )
    xmpp_password: SecretStr | None = Field(None, description="Password of the XMPP account.")
    xmpp_server: str = Field(
        "",
        description="host or host:port of the XMPP server; default: the server of the account's domain by DNS.",
    )
    xmpp_tls: Literal["starttls", "direct", "none"] = Field(
        "starttls",
        description="starttls: the connection is encrypted before any data; direct: from its first byte (port 5223); "
        "none: for this machine only.",
    )
    xmpp_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities of the XMPP server's certificate; default: the system's."
    )
    on_refused: Literal["hold_key", "skip", "stop"] = Field(
        "hold_key",
        description="After a broker refuses a record for good: its key waits; or the record becomes a dead letter and "
        "its key continues; or the whole sink stops. A topic's own setting wins.",
    )
    sql_notify: bool | None = Field(
        None, description="hookwire.publish wakes the relay by NOTIFY; default on in development, off in production."
    )
    event_bytes_max: int = Field(1_048_576, ge=1, le=64 * 1_048_576, description="Largest event.")
    fan_out_seconds_max: float = Field(
        5.0,
        ge=0.1,
        le=30,
        description="Time limit of a statement that applies filters and patterns; a longer one is cut.",
    )
    direct_deliveries: bool = Field(
        True,
        description="Make the deliveries of an event in the commit that publishes it, if no earlier event waits.",
    )
    lease_seconds: float = Field(6.0, ge=0.5, le=300, description="Time that a silent relay keeps its lease.")
    egress_allow_cidrs: Texts = Field(
        (), description="Private networks that callbacks may reach, comma separated; empty: public addresses only."
    )
    egress_allow_hosts: Texts = Field(
        (), description="Host names (exact or *.suffix) that callbacks may reach at any address."
    )
    egress_allow_http: bool = Field(True, description="Callbacks may use http, not only https.")
    egress_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities of callbacks' certificates; default: the system's."
    )
    egress_proxy: SecretStr | None = Field(
        None,
        description="http://user:secret@host:port of a proxy for every request to a callback, by CONNECT; default: no "
        "proxy. Proxies of the environment are never used.",
    )
    egress_proxy_resolves: bool = Field(
        False,
        description="The proxy gets names instead of judged addresses. It then has to refuse forbidden targets.",
    )
    egress_allow_metadata: bool = Field(
        False, description="Callbacks may reach cloud metadata addresses. Never do this."
    )
    delivery_timeout_seconds: float = Field(15.0, ge=1, le=30, description="Deadline of one whole attempt.")
    delivery_slots: int = Field(
        256,
        ge=1,
        le=4096,
        description="Attempts in flight in this process. Subscriptions whose last attempt failed, and new ones, get "
        "half of them together, and half of each host's.",
    )
    delivery_slots_per_subscription: int = Field(
        64, ge=1, le=1024, description="Attempts in flight for one subscription."
    )
    delivery_slots_per_host: int = Field(64, ge=1, le=1024, description="Attempts in flight for one host.")
    breaker_failure_share: float = Field(
        0.7, ge=0, le=1, description="Share of failed attempts at which a breaker opens; 0: never."
    )
    breaker_attempts_min: int = Field(
        10, ge=1, le=20, description="Least number of attempts for that share, among the last 20 in five minutes."
    )
    breaker_seconds: float = Field(
        30.0, ge=0.1, le=3600, description="First time that the breaker stays open; doubled when its probe fails."
    )
    breaker_seconds_max: float = Field(
        600.0, ge=0.1, le=86_400, description="Longest time that the breaker stays open."
    )
    disable_after_failing_seconds: int = Field(
        0,
        ge=0,
        le=31_536_000,
        description="Time of failures after which a subscription is disabled, never WebSub's; 0: never.",
    )
    retry_schedule_seconds: Annotated[tuple[Annotated[int, Field(ge=0, le=604_800)], ...], COMMAS] = Field(
        (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400),
        description="Pauses between attempts, comma separated; the last failure makes a dead letter.",
    )
    retry_age_seconds_max: int = Field(
        604_800,
        ge=1,
        le=31_536_000,
        description="Age after which a delivery gets no attempt and becomes a dead letter.",
    )
    retry_after_seconds_max: int = Field(3600, ge=1, le=86400, description="Longest Retry-After that counts.")
    websub_lease_seconds_min: int = Field(60, ge=1, description="Shortest WebSub lease.")
    websub_lease_seconds_default: int = Field(864_000, ge=1, description="WebSub lease of a request without one.")
    websub_lease_seconds_max: int = Field(2_592_000, ge=1, description="Longest WebSub lease.")
    websub_secret_over_http: Literal["allow", "warn", "reject"] = Field(
        "warn", description="Treatment of a hub.secret sent over plain HTTP."
    )
    websub_tell_lease_end: bool = Field(
        False, description="A WebSub callback gets hub.mode=denied when its lease has ended."
    )
    websub_foreign_topics: Literal["off", "registered", "any"] | None = Field(
        None,
        description="Topics of other publishers, fetched after a ping: refused, registered ones, or any; default "
        "registered in development, off in production. In development, any lets subscribers read pages "
        "of servers on loopback.",
    )
    websub_pshb: Literal["off", "tolerant", "strict03"] = Field(
        "tolerant",
        description="PubSubHubbub 0.3: off ignores its parameters; tolerant echoes its tokens. strict03 requires "
        "hub.verify, verifies sync requests before the answer, and grants endless leases by default.",
    )
    websub_publish_secret: SecretStr | None = Field(
        None, description="Signs hub.content, which publishers without an API key use to send a topic's content."
    )
    websub_sha1_hosts: Texts = Field(
        (), description="Hosts of old WebSub callbacks that check sha1 only, comma separated."
    )
    websub_strict_topic: bool = Field(
        False,
        description="Deny subscriptions to another publisher's topic under a URL that the topic does not advertise.",
    )
    secret_keys: SecretStr | None = Field(
        None, description="id:base64[,id:base64], the first seals; default: a key file in the data directory."
    )
    idempotency_seconds: int = Field(86_400, ge=60, description="Time that an Idempotency-Key is remembered.")
    retention_days: int = Field(
        30,
        ge=0,
        le=36_500,
        description="Retention of events and their attempts; open deliveries stay. 0: for ever.",
    )
    dead_letter_retention_days: int = Field(
        90, ge=0, le=36_500, description="Retention of dead letters, and with them of their events. 0: for ever."
    )
    history_retention_days: int = Field(
        365,
        ge=0,
        le=36_500,
        description="Retention of the audit trail, finished replays, ended API keys and ended subscriptions. "
        "0: for ever.",
    )
    gold_retention_days: int = Field(
        400,
        ge=0,
        le=36_500,
        description="Retention of the data that `hookwire pipeline` stores in the database: metrics, service levels, "
        "backlog. 0: for ever.",
    )
    trusted_proxies: Texts = Field(
        (), description="Proxies whose X-Forwarded headers count: addresses and networks, comma separated."
    )
    docs: bool | None = Field(None, description="Serve the page /docs; default on in development, off in production.")
    drain_seconds: float = Field(
        6.0, ge=0, le=300, description="Time of a soft stop for work in flight; closing takes 3 s more."
    )
    stop_delay_seconds: float = Field(
        0.0,
        ge=0,
        le=300,
        description="Time after SIGTERM in which the hub still takes requests while /readyz answers 503. Let it be two "
        "periods of the health check of the balancer before the hub.",
    )
    keep_alive_seconds: float = Field(
        75.0,
        ge=1,
        le=3600,
        description="Time that an idle connection waits for another request. Let it be longer than the balancer before "
        "the hub keeps idle connections.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else json."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_events: bool | None = Field(
        None,
        description="Log a line for each publish, delivery and failed attempt (20 of each per second at most); default"
        " on in development, off in production.",
    )
    log_sample_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the events with a log line for the request that stored them and for each attempt; "
        "0: none, 1: all. Each process chooses the same events.",
    )
    failpoints: str = Field("", description="For tests: name:kill|hang|error|delay|stall[=seconds][@n or /n],...")

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        # It is written unchanged into Link headers and problem documents.
        try:
            named = value.isascii() and _PUBLIC_URL.fullmatch(value) and urlsplit(value).port != 0
        except ValueError:
            named = False
        if value and not named:
            raise ValueError("must be an http or https URL without query, such as https://hub.example")
        return value

    @field_validator("egress_proxy")
    @classmethod
    def _check_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value.get_secret_value())
            named = parts.scheme == "http" and parts.hostname and parts.port and not parts.path.strip("/")
        except ValueError:
            named = False
        if not named:
            raise ValueError("must be http://host:port or http://user:secret@host:port")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Settings:
        if not self.websub_lease_seconds_min <= self.websub_lease_seconds_default <= self.websub_lease_seconds_max:
            raise ValueError("websub_lease_seconds_min <= _default <= _max does not hold")
        if self.profile == "production" and self.failpoints:
            raise ValueError("failpoints are refused in production")
        if self.profile == "production" and self.access == "open":
            raise ValueError("access=open is refused in production: set keys, or proxy where a proxy authenticates")
        source_url = self.amqp_source_url or self.amqp_url
        url = None if source_url is None else source_url.get_secret_value()
        check_broker(self.amqp_sources, url, is_of_sink=self._sources_are_of_sink)
        return self

    @property
    def needs_keys(self) -> bool:
        """Return whether requests need an API key."""
        return self.access == "keys" or (self.access is None and self.profile == "production")

    @property
    def serves_docs(self) -> bool:
        """Return whether the page /docs is served."""
        return self.docs if self.docs is not None else self.profile == "development"

    @property
    def logs_events(self) -> bool:
        """Return whether each publish and each attempt has its line in the log."""
        wanted = self.log_events if self.log_events is not None else self.profile == "development"
        return wanted and self.log_level in ("debug", "info")

    @property
    def foreign_topics(self) -> Literal["off", "registered", "any"]:
        """Return the effective value of ``websub_foreign_topics``."""
        return self.websub_foreign_topics or ("registered" if self.profile == "development" else "off")

    @property
    def listen_address(self) -> tuple[str, int]:
        """Return host and port of ``listen``; an IPv6 host has brackets."""
        return _address("LISTEN", self.listen)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Return host and port of ``metrics_listen``, if set."""
        return _address("METRICS_LISTEN", self.metrics_listen) if self.metrics_listen else None

    def sources_of_sink(self) -> list[SourceRoute]:
        """Return the AMQP sources that read the sink's broker."""
        return [route_of(text) for text in self.amqp_sources] if self._sources_are_of_sink else []

    @property
    def _sources_are_of_sink(self) -> bool:
        if self.amqp_url is None or self.amqp_source_url is None:
            return self.amqp_url is not None
        urls = self.amqp_url, self.amqp_source_url
        return len({amqp_place(url.get_secret_value()) for url in urls}) == 1

    @property
    def key_file(self) -> Path:
        """Return where the secret keys are if no setting names them."""
        return self.data_dir / "secret.keys"

    @property
    def has_direct_path(self) -> bool:
        """Return whether a commit may make the deliveries of its events: as it is set, and without a standby fence."""
        return self.direct_deliveries and not self.standby_fence

    @property
    def reads_sources(self) -> bool:
        """Return whether there is a queue or a topic to read."""
        return bool(self.amqp_sources or self.kafka_sources)


def _address(name: str, text: str) -> tuple[str, int]:
    address = address_of(text)
    if address is None:
        raise SettingsRefused(f"{PREFIX}{name} is host:port, the port at most 65535, not {text!r}")
    return address


def load_settings(
    environment: Mapping[str, str] | None = None, file: Path | None = None, defaults: Mapping[str, Any] | None = None
) -> Settings:
    """Read the file and the environment; raises :class:`SettingsRefused` with one clear line per mistake.

    ``defaults`` are values for settings that neither names (compat mode).
    """
    environment = os.environ if environment is None else environment
    named = environment.get("HOOKWIRE_CONFIG")
    found = read_file(file or (Path(named) if named is not None else None))
    ours = [name for name in environment if name.startswith(PREFIX) and not is_foreign(name)]
    known = Settings.model_fields
    mistakes = [*unknown_variables(ours, PREFIX, known), *found.unknown(known)]
    values = {name: value for name, value in found.values.items() if name in known}
    try:
        settings = Settings(**{**(defaults or {}), **values, **_variables(environment)})
    except ValidationError as error:
        # A misspelt name may be the cause of a contradiction between settings, so it is reported first.
        wrong = [e for e in error.errors() if e["loc"] or not mistakes]
        mistakes += [_mistake(e["loc"], e["msg"], environment, found) for e in wrong]
    if mistakes:
        raise SettingsRefused("\n".join(mistakes))
    return settings


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that variables name; an empty one counts as absent."""
    names = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
    return {names[key.upper()]: value for key, value in environment.items() if value and key.upper() in names}


def _mistake(location: tuple[int | str, ...], message: str, environment: Mapping[str, str], file: SettingsFile) -> str:
    """Return one line without the value, because it may be a secret. A variable wins over the file."""
    words = words_of(message)
    if len(location) > 1:
        words = f"each value {words}; commas stand between values"
    if not location:
        return words
    name = str(location[0])
    variable = f"{PREFIX}{name.upper()}"
    if name in file.values and variable not in environment:
        return f"{file.place(name)}: {name}: {words}"
    return f"{variable}: {words}"
