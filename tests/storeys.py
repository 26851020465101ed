"""Which marks a test has by its place, its fixtures and its other marks; the make targets select by them."""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

UNIT_FOLDERS = (
    "app", "db", "egress", "event", "hub", "jobs", "models", "relay", "reqrep", "runtime", "sdk", "webhooks",
)  # fmt: skip
"""The folders below `tests` that mirror a room, and the models. The other folders test ports, or the whole product."""

SERVER_FIXTURES = frozenset(
    {
        "servers_folder", "pair", "postgres18", "postgres15", "postgres", "databases18", "databases15", "database_url",
        "database_url15", "database_url_both", "mariadb", "mariadb_url", "kafka", "strict_kafka", "rabbitmq", "prosody",
    }
)  # fmt: skip
"""The fixtures of `tests/conftest.py` that boot a server or are given one."""

LONG = {
    "tests/acceptance/test_demo.py": ("test_without_brokers_the_tour_shows_the_webhook_and_says_what_is_left_out",),
    "tests/acceptance/test_git_push.py": (
        "test_a_push_before_anybody_listens_while_the_hub_is_away_and_after_a_killed_build_is_not_lost",
    ),
    "tests/acceptance/test_office.py": ("test_two_people_assign_delay_finish_send_back_and_approve_in_two_browsers",),
    "tests/acceptance/test_pages.py": (
        "test_a_refresh_keeps_the_keyboards_focus_and_the_sideways_scroll",
        "test_nothing_lies_outside_of_its_card_and_links_and_heads_are_told_apart[1280]",
    ),
    "tests/acceptance/test_tour.py": ("test_after_kill_nine_the_next_start_finds_everything",),
    "tests/acceptance/test_truth.py": (
        "test_a_browser_shows_no_green_pill_beside_a_receiver_that_fails[keys-390]",
        "test_a_browser_shows_no_green_pill_beside_a_receiver_that_fails[open-1280]",
    ),
    "tests/app/web/test_generated_client.py": (
        "test_a_generated_python_client_publishes_subscribes_rotates_and_lists",
    ),
    "tests/app/web/test_websub.py": ("test_a_small_flood_of_subscribe_requests_hardly_reaches_its_victim",),
    "tests/contract/workers/test_stored_endings.py": (
        "test_a_stop_has_an_end_whatever_a_handler_does[job_worker-swallows_its_cancellation-held-1]",
        "test_a_stop_has_an_end_whatever_a_handler_does[message_worker-swallows_its_cancellation-held-1]",
        "test_a_stop_has_an_end_whatever_a_handler_does[sdk_job_worker_in_thread-hangs_in_a_thread-held-1]",
        "test_a_stop_has_an_end_whatever_a_handler_does[sdk_job_worker_in_transaction-swallows_its_cancellation-held-1]",
        "test_a_stop_has_an_end_whatever_a_handler_does[sdk_message_worker-swallows_its_cancellation-held-1]",
        "test_a_stop_has_an_end_whatever_a_handler_does[task_worker-swallows_its_cancellation-held-1]",
    ),
    "tests/db/test_stale_plans.py": (
        "test_no_statement_goes_through_a_backlog_on_the_plan_of_an_empty_table[postgres18-analysed with three rows]",
        "test_no_statement_goes_through_a_backlog_on_the_plan_of_an_empty_table[postgres18-vacuumed while empty]",
    ),
    "tests/db/test_verdict_reads.py": ("test_the_verdict_reads_no_more_of_large_tables[many names]",),
    "tests/docs/test_docs.py": (
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/api-keys.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/coming-from-gearman.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/debezium-outbox.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/egress.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/erase-a-customer.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/from-rabbithub.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/inbound-webhooks.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/metrics.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/pull.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/questions.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/how-to/replace-kafka-connect.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/reference/filters.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/reference/ledger.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/tutorial/office.md]",
        "test_what_a_page_tells_to_type_does_what_it_says[docs/tutorial/repair.md]",
    ),
    "tests/docs/test_migrate.py": ("test_the_page_is_followed_to_its_end",),
    "tests/faults/test_amqp_source.py": ("test_a_broker_that_restarts_while_it_is_read_costs_nothing",),
    "tests/faults/test_brokers.py": (
        "test_a_kafka_that_hangs_delays_neither_amqp_nor_webhooks",
        "test_a_rabbitmq_behind_a_proxy_that_accepts_and_closes_ends_nobody_and_gets_all_of_it",
        "test_what_rabbitmq_had_not_confirmed_is_sent_again_and_what_it_had_is_kept[connections closed]",
        "test_what_rabbitmq_had_not_confirmed_is_sent_again_and_what_it_had_is_kept[restart]",
        "test_with_kafka_down_at_the_start_and_again_later_everything_else_goes_on_and_kafka_gets_all_of_it[3]",
    ),
    "tests/faults/test_client.py": ("test_each_event_is_stored_once_however_often_the_hub_dies_after_commit",),
    "tests/faults/test_database.py": (
        "test_a_database_that_never_answers_is_a_503_within_the_time_out_and_heals_by_itself",
        "test_an_answer_of_the_database_that_is_lost_makes_no_second_event",
        "test_connections_that_are_killed_in_mid_transaction_cost_nothing",
    ),
    "tests/faults/test_database_trouble.py": (
        "test_a_full_disk_costs_nothing_that_was_acknowledged_and_is_nobodys_fault[10]",
        "test_a_read_only_server_costs_nothing_that_was_acknowledged_and_is_nobodys_fault[10]",
    ),
    "tests/faults/test_failover.py": (
        "test_after_a_switchover_everything_goes_on[hosts-postgres15]",
        "test_after_a_switchover_everything_goes_on[name-postgres18]",
    ),
    "tests/faults/test_failpoints.py": (
        "test_nothing_is_lost_or_reordered_when_the_service_dies_at_each_step[deliver]",
        "test_nothing_is_lost_or_reordered_when_the_service_dies_at_each_step[publish]",
        "test_nothing_is_lost_or_reordered_when_the_service_dies_at_each_step[relay]",
    ),
    "tests/faults/test_goharvest.py": ("test_relays_that_come_and_go_lose_and_reorder_nothing[neli-2-small]",),
    "tests/faults/test_greetings.py": (
        "test_a_peer_that_closes_in_the_middle_of_a_greeting_is_trouble_and_is_greeted_again[kafka-election-ends]",
        "test_a_peer_that_closes_in_the_middle_of_a_greeting_is_trouble_and_is_greeted_again[kafka-transactional-ends]",
    ),
    "tests/faults/test_neli.py": (
        "test_a_leader_by_neli_is_succeeded_and_writes_nothing_behind_its_successor[asked to end]",
        "test_a_leader_by_neli_is_succeeded_and_writes_nothing_behind_its_successor[killed]",
    ),
    "tests/faults/test_processes.py": (
        "test_a_leader_that_was_stopped_past_its_lease_writes_nothing_behind_its_successor[3x the lease]",
        "test_a_leader_whose_loop_was_blocked_past_its_lease_writes_nothing_behind_its_successor[3x the lease]",
        "test_sigterm_under_load_ends_in_time_and_repeats_nothing",
    ),
    "tests/faults/test_prove.py": ("test_prove_prints_its_line_and_leaves_no_process_and_no_folder_behind",),
    "tests/faults/test_seeded_bugs.py": (
        "test_a_seeded_bug_breaks_its_promise_and_without_it_the_same_scenario_holds[seeded-ack-before-commit]",
        "test_a_seeded_bug_breaks_its_promise_and_without_it_the_same_scenario_holds[seeded-cursor]",
        "test_a_seeded_bug_breaks_its_promise_and_without_it_the_same_scenario_holds[seeded-no-key-lock]",
        "test_a_seeded_bug_breaks_its_promise_and_without_it_the_same_scenario_holds[seeded-no-term-check]",
    ),
    "tests/faults/test_services.py": ("test_a_client_that_never_reads_costs_neither_the_others_nor_memory",),
    "tests/jobs/test_plans.py": (
        "test_no_call_walks_over_what_waits[postgres15-analysed]",
        "test_no_call_walks_over_what_waits[postgres15-planned while empty]",
        "test_no_call_walks_over_what_waits[postgres18-analysed]",
    ),
    "tests/pipeline/test_archive.py": (
        "test_a_topic_that_was_made_anew_is_named_and_begins_again_only_when_told_to",
        "test_each_record_is_archived_exactly_once[python]",
    ),
    "tests/pipeline/test_audit_command.py": (
        "test_an_empty_lake_is_no_clean_lake",
        "test_each_fault_that_is_planted_is_named_and_taken_back",
        "test_the_end_of_an_audit_is_noted_for_the_verdict_and_doctor",
        "test_what_is_missing_doubled_and_out_of_order_is_named",
        "test_what_is_not_archived_yet_is_not_lost",
        "test_what_leaves_the_outbox_while_kafka_is_read_is_not_lost",
    ),
    "tests/pipeline/test_audit_database.py": (
        "test_a_database_of_another_name_is_one_sentence",
        "test_a_ledger_that_was_altered_accuses_neither_lake_nor_database",
        "test_an_event_that_was_moved_by_hand_is_named_on_both_sides",
    ),
    "tests/pipeline/test_audit_files.py": (
        "test_a_time_that_python_does_not_have_hides_no_record",
        "test_files_that_fit_the_log_are_named_by_their_events[a checkpoint that differs from the commits]",
        "test_files_that_fit_the_log_are_named_by_their_events[a file under a second path]",
        "test_files_that_fit_the_log_are_named_by_their_events[nothing but another unit of time]",
    ),
    "tests/pipeline/test_audit_foreign.py": (
        "test_a_wrong_partition_value_is_a_finding_with_its_events",
        "test_a_wrong_statistic_is_a_finding[maxValues]",
        "test_a_wrong_statistic_is_a_finding[minValues]",
        "test_what_rearranges_is_clean_and_what_deletes_is_named",
    ),
    "tests/pipeline/test_audit_memory.py": (
        "test_a_day_with_an_event_that_kafka_has_yet_to_get_is_not_proved",
        "test_a_proved_day_is_read_again_only_when_a_byte_of_it_has_changed",
        "test_keys_are_compared_across_the_last_proved_midnight",
        "test_what_was_found_wrong_is_not_remembered_as_proved",
    ),
    "tests/pipeline/test_audit_omissions.py": (
        "test_an_audit_that_compared_nothing_is_no_success",
        "test_retention_notes_its_bound_in_the_database",
    ),
    "tests/pipeline/test_audit_seals.py": (
        "test_rows_of_another_secret_are_named_so_and_a_rotation_keeps_the_former_ones",
        "test_rows_of_before_are_counted_and_more_of_them_are_named",
    ),
    "tests/pipeline/test_backfill.py": (
        "test_a_dry_run_counts_what_a_run_would_do",
        "test_events_under_a_former_name_keep_it_and_erased_ones_are_left_out",
    ),
    "tests/pipeline/test_command.py": (
        "test_a_kill_in_the_middle_of_a_batch_loses_and_doubles_nothing",
        "test_a_topic_is_planned_archived_and_on_record",
        "test_the_pipelines_doctor_checks_packages_java_kafka_lake_and_workers",
    ),
    "tests/pipeline/test_examples.py": ("test_the_example_of_typed_tables_shows_the_newest_of_each_topic",),
    "tests/pipeline/test_foreign.py": ("test_every_job_goes_on_before_and_after_other_tools",),
    "tests/pipeline/test_insight.py": ("test_the_commands_read_lake_and_database",),
    "tests/pipeline/test_lake.py": ("test_a_long_log_is_read_from_its_checkpoint",),
    "tests/pipeline/test_maintenance.py": (
        "test_a_subject_is_also_named_by_events_and_by_subjects_of_cloudevents",
        "test_the_commands_say_what_they_would_do_then_do_it",
    ),
    "tests/pipeline/test_pages.py": ("test_spark_asks_for_the_configuration_of_yarn_in_one_sentence",),
    "tests/pipeline/test_report_numbers.py": (
        "test_names_without_a_space_fit_a_phone_and_a_desk",
        "test_the_page_fits_a_phone_and_a_desk_in_the_dark_and_in_the_light[10]",
        "test_the_page_fits_a_phone_and_a_desk_in_the_dark_and_in_the_light[1]",
    ),
    "tests/pipeline/test_seals.py": (
        "test_a_key_that_is_not_here_is_named_and_a_former_one_proves",
        "test_a_lake_of_today_gets_the_columns_in_place[of the version before]",
        "test_the_first_seals_begin_after_the_last_row_without_one",
    ),
    "tests/pipeline/test_tampering.py": (
        "test_an_event_that_was_deleted_inserted_or_rewritten_by_hand_is_named",
        "test_contents_that_the_ledger_does_not_know_are_counted_as_unproved",
        "test_json_is_judged_by_the_audit",
        "test_whatever_is_moved_in_time_is_named_wherever_it_went",
    ),
    "tests/pipeline/test_typed.py": (
        "test_a_commit_between_the_two_searches_of_an_erasure_fails",
        "test_a_day_of_two_kafka_topics_has_the_rows_of_both",
        "test_a_day_of_which_bronze_lost_rows_is_computed_again_although_as_many_came",
        "test_a_day_of_which_rows_were_erased_is_computed_again",
        "test_a_log_of_bronze_that_was_cut_takes_no_typed_row",
        "test_a_merge_of_bronze_meanwhile_costs_a_repeat",
        "test_a_subject_is_erased_from_every_table_that_was_made_of_bronze",
        "test_an_erasure_while_a_day_is_computed_wins[before the files are written]",
        "test_typed_files_in_quarantine_are_erased_after_their_table",
    ),
    "tests/project/test_wheels.py": (
        "test_a_wheel_of_the_sdist_is_the_wheel_of_the_checkout",
        "test_the_installed_sdk_publishes_in_a_transaction",
        "test_the_installed_service_takes_an_event",
    ),
    "tests/relay/amqp/test_destinations.py": (
        "test_a_destination_that_takes_nothing_waits_alone[_silent-unconfirmed-a quorum queue needs most of its nodes]",
    ),
    "tests/relay/amqp/test_sink.py": (
        "test_a_restart_of_the_broker_keeps_what_was_confirmed_and_the_rest_is_sent_again",
        "test_an_alarm_pauses_the_sink_and_healing_it_loses_and_reorders_nothing",
    ),
    "tests/relay/election/test_neli.py": ("test_a_seat_that_is_held_is_seen_to_be_held",),
    "tests/relay/kafka/test_destinations.py": (
        "test_a_compacted_topic_refuses_a_backlog_without_keys_and_nobody_else_waits[transactional]",
        "test_a_topic_that_is_deleted_under_way_waits_alone[idempotent]",
        "test_a_topic_without_a_leader_waits_alone[under way-idempotent]",
        "test_a_topic_without_a_leader_waits_alone[under way-transactional]",
    ),
    "tests/relay/kafka/test_producer.py": (
        "test_a_cluster_whose_brokers_are_all_fenced_is_trouble_until_one_is_back[None]",
    ),
    "tests/relay/kafka/test_sink.py": (
        "test_a_broker_that_is_killed_in_the_middle_of_a_drain_costs_nothing_and_no_order[idempotent]",
        "test_a_broker_that_is_killed_in_the_middle_of_a_drain_costs_nothing_and_no_order[transactional]",
    ),
    "tests/relay/test_security.py": ("test_records_reach_a_kafka_that_demands_tls[PLAIN]",),
    "tests/servers/test_servers.py": (
        "test_every_verb_reaches_a_server_that_another_process_started",
        "test_kafka_keeps_acknowledged_records_and_its_port_through_kill_and_restart",
        "test_rabbitmq_keeps_confirmed_messages_and_its_port_through_kill_and_restart",
        "test_the_broker_deletes_a_queue_and_closes_connections_on_command",
        "test_the_broker_refuses_after_stop_app_and_answers_after_start_app",
        "test_the_memory_watermark_blocks_publishers_until_it_is_raised",
    ),
}
"""Tests that need many seconds, by their files; `make faults` runs them. Each has neighbours that
show the same in `make test`, at another place or size.
"""

PLANS = frozenset({"tests/db/test_flat_plans.py", "tests/db/test_plans.py", "tests/db/test_stale_plans.py"})
"""Files about the plans of statements over large tables; on PostgreSQL 15, `make faults` runs them."""

_STARTS_PROCESSES = re.compile(r"\bsubprocess\b|create_subprocess|\bdb\.embedded\b")


def mark_storeys(items: Sequence[pytest.Item]) -> None:
    """Mark scenarios as `fault`, public clients as `interop`, `soak` and long ones as `slow`, those without servers as
    `unit`.
    """
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker("fault")
        if item.nodeid.startswith("tests/interop/"):
            item.add_marker("interop")
        file, _, name = item.nodeid.partition("::")
        if item.get_closest_marker("soak") or is_long(file, name):
            item.add_marker("slow")
        if is_unit(item):
            item.add_marker("unit")


def is_long(file: str, name: str) -> bool:
    """Return whether a test of a file needs many seconds."""
    return name in LONG.get(file, ()) or (file in PLANS and "[postgres15" in name)


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test needs no server and its module starts no process."""
    if not isinstance(item, pytest.Function) or not is_unit_path(item.path, item.config.rootpath):
        return False
    return not item.get_closest_marker("slow") and not _needs_server(item)


def is_unit_path(path: Path, root: Path) -> bool:
    """Return whether a folder, or a file with its text, can hold unit tests; a folder above all of them can."""
    if not path.is_relative_to(root):
        return False
    below = path.relative_to(root).parts
    is_in_a_room = len(below) < 2 or below[0] != "tests" or below[1] in UNIT_FOLDERS or below[1].endswith(".py")
    return is_in_a_room and not _starts_processes(path)


@cache
def _starts_processes(path: Path) -> bool:
    return path.suffix == ".py" and _STARTS_PROCESSES.search(path.read_text(encoding="utf-8")) is not None


def _needs_server(item: pytest.Function) -> bool:
    """Return whether a server is among the fixtures, or a fixture may ask for one by its name."""
    if SERVER_FIXTURES.intersection(item.fixturenames):
        return True
    definitions = [one for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    return any(hands_request_on(one.func) for one in definitions if "request" in one.argnames)


@cache
def hands_request_on(fixture: Callable[..., Any]) -> bool:
    """Return whether a fixture does more with `request` than read `request.param`.

    Only such a fixture can call `request.getfixturevalue`, here or in a function that gets the request.
    """
    if not fixture.__module__.startswith("tests."):
        return False
    tree = ast.parse(inspect.cleandoc(inspect.getsource(fixture)))
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "request"]
    reads = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "request"
        and node.attr == "param"
    ]
    return len(uses) > len(reads)
