"""Settings: where they come from, what is refused and in which words; the reference page (EC-05, SC-23, B-53)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.assembly.sinks import amqp_options, kafka_options
from app.settings.settings import Settings, SettingsRefused, load_settings
from scripts.settings_reference import SETTINGS_FILE, text


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "hookwire.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(environment: dict[str, str] | None = None, file: Path | None = None) -> str:
    """The text of a refusal."""
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environment or {}, file)
    return str(refused.value)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a hookwire.toml, unless the test writes one."""
    monkeypatch.chdir(tmp_path)


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings({})

    assert (settings.profile, settings.listen, settings.database_url) == ("development", "127.0.0.1:8080", None)


def test_a_file_in_the_working_directory_is_read(tmp_path: Path) -> None:
    write(tmp_path, 'listen = "127.0.0.1:9"\negress_allow_cidrs = "10.1.0.0/16, 10.2.0.0/16"')

    settings = load_settings({})

    assert (settings.listen, settings.egress_allow_cidrs) == ("127.0.0.1:9", ("10.1.0.0/16", "10.2.0.0/16"))


def test_a_variable_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWIRE_LISTEN", "127.0.0.1:7")

    assert load_settings(file=write(tmp_path, 'listen = "127.0.0.1:9"')).listen == "127.0.0.1:7"


def test_the_variable_config_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "delivery_slots = 7").rename(tmp_path / "other.toml")

    assert load_settings({"HOOKWIRE_CONFIG": str(path)}).delivery_slots == 7


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("HOOKWIRE_LISTENN", "HOOKWIRE_LISTEN"), ("HOOKWIRE_DATABASEURL", "HOOKWIRE_DATABASE_URL")],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    """SC-23."""
    assert refusal({name: "x"}) == f"unknown setting {name}; did you mean {nearest}?"


def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    path = write(tmp_path, 'profile = "development"\nlisen = "x"')

    assert refusal(file=path) == f"{path}, line 2: unknown setting lisen; did you mean listen?"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("RETENTION_DAYS", "many", "must be a whole number"),
        ("PROFILE", "prod", "must be 'development' or 'production'"),
        ("RETRY_SCHEDULE_SECONDS", "5 10", "each value must be a whole number; commas stand between values"),
        ("DATA_DIR", __file__, f"{__file__} is a file; name a folder, which is made if it does not exist"),
    ],
    ids=lambda value: value if value.isupper() else "",
)
def test_a_wrong_value_is_told_in_plain_words(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-15: "Input should be a valid integer, unable to parse string as an integer"."""
    monkeypatch.setenv(f"HOOKWIRE_{name}", value)
    assert refusal({f"HOOKWIRE_{name}": value}) == f"HOOKWIRE_{name}: {said}"


def test_a_file_that_is_no_toml_is_told_how_a_line_looks(tmp_path: Path) -> None:
    """GU-15: "Expected newline or end of document" said nothing of the quotes that lacked."""
    path = write(tmp_path, "listen = 127.0.0.1:1")
    assert refusal(file=path).endswith('and a text stands in quotes: listen = "127.0.0.1:8080"')


def test_the_common_prefix_makes_no_two_names_alike() -> None:
    """GU-15: for HOOKWIRE_MAX_BODY it said: did you mean HOOKWIRE_KAFKA_MODE?"""
    assert refusal({"HOOKWIRE_MAX_BODY": "10"}) == "unknown setting HOOKWIRE_MAX_BODY"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# profile\nprofile = 'x'\n\n  lease_seconds=\"abc\"", [(2, "profile"), (4, "lease_seconds")]),
        (
            "[kafka]\nmode = 1\n[[leases]]",
            [(1, "unknown setting kafka; no setting stands in a section"), (3, "unknown setting leases")],
        ),
        ('"lisen" = 1\nharvest.limits = 2', [(1, "unknown setting lisen"), (2, "unknown setting harvest")]),
        ("profile = 'x'\nlisen = 1", [(2, "unknown setting lisen"), (1, "profile")]),
    ],
)  # fmt: skip
def test_every_mistake_of_the_file_is_named_with_its_line(
    tmp_path: Path, content: str, said: list[tuple[int, str]]
) -> None:
    """RG-09: which file, which line, which key; the value may be a secret."""
    path = write(tmp_path, content)

    lines = refusal(file=path).splitlines()

    assert [line.startswith(f"{path}, line {n}: {what}") for line, (n, what) in zip(lines, said, strict=True)] == [
        True, True,
    ], lines  # fmt: skip


def test_a_variable_that_makes_no_sense_is_blamed_and_not_the_file_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKWIRE_LEASE_SECONDS", "x")

    words = refusal({"HOOKWIRE_LEASE_SECONDS": "x"}, write(tmp_path, "lease_seconds = 5"))

    assert words.startswith("HOOKWIRE_LEASE_SECONDS: ")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"listen", b"a: &a [*a]", b'listen = "a"\nlisten = "b"', b"\x00", b"listen = " + b"[" * 100_000],
    ids=lambda content: str(content)[:20],
)
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    """B-53."""
    path = write(tmp_path, content)

    assert refusal(file=path).startswith(f"{path}: ")


def test_a_file_that_is_missing_or_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    assert refusal(file=tmp_path / "none.toml") == (
        f"--config or HOOKWIRE_CONFIG: {tmp_path / 'none.toml'} does not exist"
    )
    assert refusal(file=tmp_path).startswith(f"{tmp_path}: ")


@pytest.mark.parametrize("file", [None, Path("hookwire.toml")], ids=["by default", "named"])
def test_a_file_in_a_folder_that_we_may_not_enter_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, file: Path | None
) -> None:
    """B-53: not known to be there is not known to be absent."""

    def closed(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", closed)

    assert refusal(file=file) == "hookwire.toml: Permission denied"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROFILE", "prod"),
        ("PUBLIC_URL", "hub.example"),
        ("PUBLIC_URL", "http://hub.example/\nX: y"),
        ("PUBLIC_URL", "http://hub.example/?a=b"),
        ("DATABASE_URL", "hub"),
        ("DATABASE_URL", "mysql://canary@db/x"),
        ("DATABASE_URL", "postgresql://canary@db:port/x"),
        ("AMQP_URL", "http://canary@broker"),
        ("AMQP_EXCHANGE", "x" * 128),
        ("KAFKA_BOOTSTRAP_SERVERS", "kafka"),
        ("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092,,"),
        ("KAFKA_TOPIC_PREFIX", "a/b"),
        ("RETRY_SCHEDULE_SECONDS", "5,x"),
        ("RETRY_SCHEDULE_SECONDS", "-1"),
        ("DELIVERY_SLOTS", "0"),
        ("DELIVERY_SLOTS", "9" * 5000),
        ("EVENT_BYTES_MAX", "1e6"),
        ("LEASE_SECONDS", "nan"),
        ("TOPICS_AUTO_CREATE", "maybe"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """B-53: one line that names the variable and does not repeat the value, which may be a secret."""
    monkeypatch.setenv(f"HOOKWIRE_{name}", value)

    words = refusal({f"HOOKWIRE_{name}": value})

    assert words.startswith(f"HOOKWIRE_{name}: ")
    assert ("\n" in words, "canary" in words) == (False, False)


def test_every_mistake_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKWIRE_PROFILE", "x")
    monkeypatch.setenv("HOOKWIRE_DELIVERY_SLOTS", "x")

    lines = refusal({"HOOKWIRE_PROFILE": "x", "HOOKWIRE_DELIVERY_SLOTS": "x"}).splitlines()

    assert [line.partition(":")[0] for line in lines] == ["HOOKWIRE_PROFILE", "HOOKWIRE_DELIVERY_SLOTS"]


def test_unknown_names_and_wrong_values_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RG-09, SC-23: of the environment and of the file."""
    monkeypatch.setenv("HOOKWIRE_DELIVERY_SLOTS", "x")
    path = write(tmp_path, "lisen = 1\nlease_seconds = 'x'")

    lines = refusal({"HOOKWIRE_LISENN": "x", "HOOKWIRE_DELIVERY_SLOTS": "x"}, path).splitlines()

    assert sorted(line.partition("; ")[0].partition(": must be")[0] for line in lines) == sorted(
        [
            "unknown setting HOOKWIRE_LISENN",
            f"{path}, line 1: unknown setting lisen",
            f"{path}, line 2: lease_seconds",
            "HOOKWIRE_DELIVERY_SLOTS",
        ]
    )


def test_a_contradiction_is_not_told_beside_a_name_that_may_have_caused_it(tmp_path: Path) -> None:
    path = write(tmp_path, "websub_lease_seconds_min = 10_000_000\nwebsub_lease_seconds_defalt = 20_000_000")

    assert refusal(file=path).splitlines() == [
        f"{path}, line 2: unknown setting websub_lease_seconds_defalt; did you mean websub_lease_seconds_default?"
    ]


@pytest.mark.parametrize("chosen", [{}, {"relay_headers": False}], ids=["by default", "off"])
def test_our_headers_are_switched_for_both_brokers(chosen: dict[str, bool]) -> None:
    """RO-15."""
    settings = Settings(kafka_bootstrap_servers="127.0.0.1:1", amqp_url=SecretStr("amqp://127.0.0.1:1"), **chosen)
    asked = [options(settings, "abcd2345").own_headers for options in (kafka_options, amqp_options)]
    assert asked == [chosen == {}] * 2


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="websub_lease_seconds_min <= _default <= _max"):
        Settings(websub_lease_seconds_min=10_000_000)


def test_production_is_not_open_to_everybody() -> None:
    """SE-04."""
    with pytest.raises(ValueError, match="access=open is refused in production"):
        Settings(profile="production", access="open")


def test_fail_points_are_refused_in_production() -> None:
    """SC-19."""
    with pytest.raises(ValueError, match="failpoints are refused in production"):
        Settings(profile="production", failpoints="x:kill")


@pytest.mark.parametrize("listen", ["8080", "host", ":8080", "host:http", "127.0.0.1:", "host:65536", "host:²"])
def test_an_address_to_listen_at_is_host_and_port(listen: str) -> None:
    with pytest.raises(SettingsRefused, match="HOOKWIRE_LISTEN is host:port"):
        _ = Settings(listen=listen).listen_address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("public_url", "https://hub.example:65536"),
        ("public_url", "https://hub.example:0"),
        ("public_url", "https://[hub.example"),
        ("kafka_bootstrap_servers", "a:9092,b:65536"),
        ("kafka_bootstrap_servers", "a:0"),
        ("database_url", "postgresql://u:s@db:65536/x"),
    ],
)
def test_a_port_that_does_not_exist_is_refused_with_the_settings(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HOOKWIRE_{name.upper()}", value)

    assert refusal({f"HOOKWIRE_{name.upper()}": value}).startswith(f"HOOKWIRE_{name.upper()}: must be ")


@pytest.mark.parametrize("name", ["database_url", "amqp_url"])
def test_a_secret_with_an_at_sign_in_it_is_refused_with_how_it_is_written(name: str) -> None:
    """RFC 3986, 3.2.1. Clients differ about which @ ends the secret; one would look for the host ``canary@db``."""
    scheme = "postgresql" if name == "database_url" else "amqp"

    said = refusal({f"HOOKWIRE_{name.upper()}": f"{scheme}://u:a@canary@db/x"})

    assert ("@ is %40" in said, "canary" in said) == (True, False)


def test_an_option_of_spark_that_is_no_json_is_refused() -> None:
    """It ended in a traceback."""
    assert "HOOKWIRE_PIPELINE_CONF: must be a JSON object" in refusal({"HOOKWIRE_PIPELINE_CONF": "spark.ui.enabled"})


def test_options_of_spark_are_read_from_json() -> None:
    found = load_settings({"HOOKWIRE_PIPELINE_CONF": '{"spark.ui.enabled": "true"}'}).pipeline_conf
    assert found == {"spark.ui.enabled": "true"}


def test_an_empty_variable_counts_as_absent() -> None:
    assert load_settings({"HOOKWIRE_LISTEN": "", "hookwire_profile": "production"}).profile == "production"


def test_a_database_may_be_named_by_several_servers() -> None:
    """HA-01."""
    url = "postgresql://u:s@one:5432,[::1]:5433,two/x?target_session_attrs=read-write"
    assert Settings(database_url=SecretStr(url)).database_url == SecretStr(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://one,:5432/x", "HOOKWIRE_DATABASE_URL: must be "),
        ("postgresql://one/x?target_session_attrs=standby", "HOOKWIRE_DATABASE_URL: target_session_attrs must be "),
    ],
)
def test_servers_that_cannot_be_meant_are_refused(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HA-01: the hub writes."""
    monkeypatch.setenv("HOOKWIRE_DATABASE_URL", url)
    assert refusal({"HOOKWIRE_DATABASE_URL": url}).startswith(said)


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert Settings(listen="[::1]:8080").listen_address == ("::1", 8080)


def test_secrets_are_masked_wherever_settings_are_printed() -> None:
    """SE-07."""
    settings = Settings(database_url=SecretStr("postgresql://u:canary@db/x"), secret_keys=SecretStr("k:canary"))

    assert "canary" not in repr(settings) + str(settings)


def test_the_reference_page_is_what_the_code_says() -> None:
    assert SETTINGS_FILE.read_text() == text(), "run: python -m scripts.settings_reference"
