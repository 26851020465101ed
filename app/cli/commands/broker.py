"""``hookwire broker``: a Majordomo broker as a process of its own. The work is ``reqrep.majordomo``'s."""

from __future__ import annotations

import json
import signal
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from app.cli.entry import Config, Json, say, settings_from, tell
from app.cli.failure import CommandFailed
from app.settings.address import address_of
from runtime.loopback import at_loopback

if TYPE_CHECKING:
    from socketserver import StreamRequestHandler

    from app.settings.settings import Settings
    from reqrep.frames import Event
    from reqrep.majordomo.options import BrokerOptions
    from reqrep.majordomo.program import BrokerProgram, CurvePlan, PairPlan
    from reqrep.titanic.thread import TitanicPlan

__all__ = ["broker"]

_PRIMARY, _BACKUP = f"tcp://{at_loopback(5003)}", f"tcp://{at_loopback(5004)}"

Bind = Annotated[
    list[str] | None,
    typer.Option("--bind", help="Endpoint to listen on; may be repeated. Default: tcp://127.0.0.1:5555."),
]
Heartbeat = Annotated[int, typer.Option("--heartbeat-ms", min=10, max=30_000, help="Interval of heartbeats.")]
Liveness = Annotated[
    int, typer.Option("--liveness", min=1, max=100, help="Silent intervals after which a peer counts as gone.")
]
Ping = Annotated[
    int,
    typer.Option(
        "--ping-ms",
        min=0,
        max=3_600_000,
        help="Interval of ZeroMQ's own heartbeats, which not every peer knows; 0: none.",
    ),
]
Expiry = Annotated[
    float, typer.Option("--request-timeout", min=0.01, help="Seconds that a request may wait for a worker.")
]
QueueMax = Annotated[
    int | None,
    typer.Option("--queue-max", min=0, help="Requests that may wait for one service. Default: only bytes are limited."),
]
QueueBytesMax = Annotated[
    int,
    typer.Option(
        "--queue-bytes-max",
        min=0,
        help="Bytes of all waiting requests and replies, with overhead; one client may have a quarter.",
    ),
]
Services = Annotated[
    Path | None, typer.Option("--services", help="TOML file: one table of policies per pattern of service names.")
]
Partials = Annotated[
    Literal["join", "drop"],
    typer.Option(
        "--partials", help="Partial replies for a client of version 0.1: join them with the last reply, or drop them."
    ),
]
Control = Annotated[
    list[str] | None, typer.Option("--control", help="User that may disable services; '*' means all users.")
]
Keys = Annotated[
    Path | None,
    typer.Option("--keys", help="CURVE: folder of public keys, USER.key, and users.toml: what each user may do."),
]
ServerKey = Annotated[Path | None, typer.Option("--server-key", help="CURVE: secret key file of this broker.")]
MakeKey = Annotated[
    Path | None,
    typer.Option("--make-key", help="Write a new key pair FOLDER/USER.key and FOLDER/USER.key_secret, and end."),
]
PairRole = Annotated[
    Literal["primary", "backup"] | None, typer.Option("--pair", help="Run as one side of a Binary Star pair.")
]
StateBind = Annotated[str, typer.Option("--state-bind", help="Endpoint at which this side publishes its state.")]
StatePeer = Annotated[str, typer.Option("--state-peer", help="Endpoint at which the other side publishes its state.")]
StateMs = Annotated[
    int,
    typer.Option(
        "--state-ms", min=10, help="Interval of state messages; a side counts as gone after two silent intervals."
    ),
]
OnDual = Annotated[
    Literal["survive", "stop"],
    typer.Option("--on-dual", help="If both sides are active: the primary stays active, or both stop."),
]
Promote = Annotated[bool, typer.Option("--promote", help="Start this side as the active one, by the operator's order.")]
Titanic = Annotated[
    str | None,
    typer.Option(
        "--titanic",
        help="Store requests (Titanic): in a file of this folder, in 'memory', or in the hub's 'database'.",
    ),
]
TitanicRetention = Annotated[
    str, typer.Option("--titanic-retention", help="Delete requests that were never closed after: 90s, 15m, 12h, 7d.")
]
TitanicConcurrency = Annotated[
    int,
    typer.Option(
        "--titanic-concurrency", min=1, help="The largest number of stored requests of one service that run at once."
    ),
]
TitanicTimeout = Annotated[
    float,
    typer.Option(
        "--titanic-timeout", min=0.01, help="Seconds without a reply after which a stored request is executed again."
    ),
]
TitanicCollect = Annotated[
    int,
    typer.Option(
        "--titanic-collect-ms", min=0, max=1_000, help="Milliseconds to wait for more writes before each sync."
    ),
]
_METRICS_SECONDS_MAX = 10.0
Metrics = Annotated[str | None, typer.Option("--metrics", help="HOST:PORT at which Prometheus reads /metrics.")]
Trace = Annotated[bool, typer.Option("--trace", help="Print every message on standard error.")]


def broker(
    bind: Bind = None, heartbeat_ms: Heartbeat = 2500, liveness: Liveness = 3, request_timeout: Expiry = 60.0,
    ping_ms: Ping = 0, queue_max: QueueMax = None, queue_bytes_max: QueueBytesMax = 268_435_456,
    services: Services = None, partials: Partials = "join", control: Control = None,
    keys: Keys = None, server_key: ServerKey = None, make_key: MakeKey = None, pair: PairRole = None,
    state_bind: StateBind = _PRIMARY, state_peer: StatePeer = _BACKUP,
    state_ms: StateMs = 1000, on_dual: OnDual = "survive", promote: Promote = False, titanic: Titanic = None,
    titanic_retention: TitanicRetention = "7d", titanic_concurrency: TitanicConcurrency = 8,
    titanic_timeout: TitanicTimeout = 900.0, titanic_collect_ms: TitanicCollect = 0, metrics: Metrics = None,
    trace: Trace = False, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Run a Majordomo broker for clients and workers of 7/MDP and 18/MDP. It needs no database.

    With --titanic database it works with the hub. A worker of HTTP or SQL may answer a request sent here, and the
    reverse. The service hub.publish publishes events.

    Exit codes: 0 stopped, 1 both sides of a pair were active, 2 wrong use.

    Examples:

      hookwire broker --bind tcp://127.0.0.1:5555

      hookwire broker --titanic ./requests

      hookwire broker --titanic database

      hookwire broker --make-key keys/alice

      hookwire broker --pair backup --bind tcp://*:5556 --state-bind tcp://*:5004 --state-peer tcp://10.0.0.1:5003
    """
    _require_pyzmq()
    with _explained():
        if make_key is not None:
            _make_key(make_key, as_json)
            return
        if promote and pair is None:
            raise CommandFailed("--promote needs --pair", 2)
        endpoints, curve = bind or [f"tcp://{at_loopback(5555)}"], _curve(keys, server_key)
        program = _program(
            endpoints,
            _options(
                heartbeat_ms, liveness, ping_ms, request_timeout, queue_max, queue_bytes_max, services,
                partials, control,
            ),
            curve,
            _pair(pair, state_bind, state_peer, state_ms, on_dual),
            trace,
            as_json,
            _titanic(
                titanic, titanic_retention, titanic_concurrency, titanic_timeout, titanic_collect_ms,
                _settings(titanic == "database", endpoints, curve, config),
            ),
        )  # fmt: skip
        from reqrep.majordomo.open_door import warning_of

        if (warning := warning_of(endpoints, curve, titanic == "database")) is not None:
            tell(warning)
        try:
            if metrics is not None:
                _serve_metrics(program, metrics)
            if promote:
                program.promote()
        except BaseException:
            program.close()
            raise
    _run(program, as_json)
    if program.stopped_by_pair:
        raise CommandFailed("both sides of the pair were in the same state; see --on-dual", 1)


def _require_pyzmq() -> None:
    try:
        from reqrep import transport  # noqa: F401 - it asks for pyzmq
    except ModuleNotFoundError as error:
        raise CommandFailed(str(error), 2) from error


@contextmanager
def _explained() -> Iterator[None]:
    """Turn a refusal by ``reqrep`` into one sentence and exit code 2."""
    from reqrep.titanic.store import StoreError
    from reqrep.transport import AddressRefused

    try:
        yield
    except (AddressRefused, StoreError, ValueError, OSError) as error:
        raise CommandFailed(str(error), 2) from error


def _options(
    heartbeat_ms: int, liveness: int, ping_ms: int, request_timeout: float, queue_max: int | None,
    queue_bytes_max: int, services: Path | None, partials: Literal["join", "drop"], control: list[str] | None,
) -> BrokerOptions:  # fmt: skip
    from reqrep.majordomo.options import BrokerOptions, ServicePolicy, policies_from

    table: Mapping[str, Any] = {}
    if services is not None:
        table = tomllib.loads(services.read_text(encoding="utf-8")).get("services", {})
    return BrokerOptions(
        heartbeat_seconds=heartbeat_ms / 1000,
        liveness=liveness,
        ping_seconds=ping_ms / 1000,
        partials=partials,
        policies=policies_from(table),
        queue_bytes_max=queue_bytes_max,
        policy=ServicePolicy(
            request_seconds_max=request_timeout, queue_requests_max=sys.maxsize if queue_max is None else queue_max
        ),
        controllers=frozenset(control or ()),
    )


def _curve(keys: Path | None, server_key: Path | None) -> CurvePlan | None:
    from reqrep.majordomo.program import CurvePlan
    from reqrep.rights import RIGHTS_FILE, RightsFile

    if (keys is None) != (server_key is None):
        raise CommandFailed("CURVE needs both --keys and --server-key", 2)
    if keys is None or server_key is None:
        return None
    file = keys / RIGHTS_FILE
    return CurvePlan(server_key, keys, RightsFile(file) if file.exists() else None)


def _pair(
    role: Literal["primary", "backup"] | None, local: str, remote: str, state_ms: int,
    on_dual: Literal["survive", "stop"],
) -> PairPlan | None:  # fmt: skip
    from reqrep.binary_star.state import BinaryStarOptions
    from reqrep.majordomo.program import PairPlan

    if role is None:
        return None
    return PairPlan(role, local, remote, BinaryStarOptions(heartbeat_seconds=state_ms / 1000, on_dual=on_dual))


def _settings(
    is_on_database: bool, endpoints: list[str], curve: CurvePlan | None, config: Path | None
) -> Settings | None:
    """Return the settings of the hub's database, if it is used. Refuse what production does not allow."""
    if not is_on_database and (curve is None or curve.rights is not None):
        return None
    from reqrep.majordomo.open_door import refusal_of

    settings = settings_from(config)
    if settings.profile == "production" and (refusal := refusal_of(endpoints, curve, is_on_database)) is not None:
        raise CommandFailed(refusal, 2)
    return settings if is_on_database else None


def _titanic(
    where: str | None, retention: str, concurrency: int, execution_seconds: float, collect_ms: int,
    settings: Settings | None,
) -> TitanicPlan | None:  # fmt: skip
    from app.cli.titanic import StoreChoice, titanic_plan

    if where is None:
        return None
    return titanic_plan(StoreChoice(where, collect_ms, settings), concurrency, execution_seconds, retention)


def _program(
    endpoints: list[str], options: BrokerOptions, curve: CurvePlan | None, pair: PairPlan | None, trace: bool,
    as_json: bool, titanic: TitanicPlan | None,
) -> BrokerProgram:  # fmt: skip
    from reqrep.event_lines import EventLines
    from reqrep.majordomo.program import BrokerProgram

    lines = EventLines()

    def report(event: Event) -> None:
        if as_json:
            _print_json(event._asdict())
            return
        for line in lines.of(time.monotonic(), event):
            tell(line)

    return BrokerProgram(endpoints, options, curve, pair, report, tell if trace else None, titanic)


def _serve_metrics(program: BrokerProgram, address: str) -> None:
    from prometheus_client import CollectorRegistry, start_http_server

    from reqrep.majordomo.metrics import BrokerMetrics

    place = address_of(address)
    if place is None:
        raise CommandFailed(f"--metrics {address!r} is not HOST:PORT", 2)
    host, port = place
    registry = CollectorRegistry()
    registry.register(BrokerMetrics(lambda: program.snapshot))
    server, _ = start_http_server(port, host, registry)
    handler = cast("type[StreamRequestHandler]", server.RequestHandlerClass)
    handler.timeout = _METRICS_SECONDS_MAX  # else a connection without a request keeps its thread


def _make_key(path: Path, as_json: bool) -> None:
    from reqrep.transport import make_keys

    if path.with_name(f"{path.name}.key_secret").exists():
        raise CommandFailed(f"{path}.key_secret exists already; choose another name or remove it", 2)
    public, secret = make_keys(path.parent, path.name)
    if as_json:
        say(json.dumps({"public_key_file": str(public), "secret_key_file": str(secret)}))
    else:
        say(f"{public}\n{secret}")


def _run(program: BrokerProgram, as_json: bool) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: program.stop())
    if as_json:
        _print_json({"kind": "listening", "endpoints": program.endpoints})
    else:
        tell(f"broker listens on {', '.join(program.endpoints)}")
    program.run()


def _print_json(value: Mapping[str, object]) -> None:
    """Print one line and flush it, so that the reader of a pipe gets it at once."""
    say(json.dumps(value))
    sys.stdout.flush()
