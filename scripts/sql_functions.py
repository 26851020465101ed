"""The text of each SQL function, as all migrations together make it: one file for each noun in `db/functions`.

`make schema` writes the files and a test proves them fresh. Nothing reads them at run time.
"""

from pathlib import Path

import asyncpg

from scripts.servers.process import ServerFailedError

FOLDER = Path(__file__).parents[1] / "db" / "functions"

_NAMES = {
    "delivery": (
        "await_direct_commits condition_count direct_audience event_passes filter_document is_affordable json_of "
        "next_in_lane note_disabled note_former_audience passes value_count"
    ),
    "event": (
        "check_drafts check_headers event_digest key_digest lane_digest publish publish_batch shard_of stash_row "
        "stripe_of"
    ),
    "incident": "incident_notice note_incidents watch_incidents",
    "installation": (
        "answer_bytes_max check_writable ensure_partitions event_name ids_left ids_per_day is_bounded_time "
        "is_readable_json lock_sequence mark_numbers numbers set_numbers_forward tell_operators"
    ),
    "job": (
        "act_on_due_job add_callbacks add_job add_jobs add_plain_job add_plain_jobs admit_job_rule announce_jobs "
        "approve_job assign_job available_kinds cancel_job check_job_draft check_job_result check_reviewer claim_jobs "
        "complete_job complete_jobs cut_result decline_job delay_job end_jobs enqueue enqueue_events event_job_args "
        "event_job_content extend_jobs fail_job finish_job fire_schedule held_jobs is_person is_plain_draft "
        "is_plain_kind is_told_result job_backoff_seconds job_due job_is_for_people job_keys job_policy jobs_within "
        "keep_jobs key_allowances lock_job_kind locked_job note_job pause_job_kind pick_at_head pick_by_key "
        "pick_limited_jobs progress_job publish_all put_job_kind refuse_stale_job release_jobs release_limit_text "
        "releases_max resume_job retry_job running_job send_back_job settle_failure snooze_job sql_role take_jobs "
        "unassign_job why_no_result with_role"
    ),
    "ledger": "content_hash ledger_from ledger_hash ledger_kept ledger_sum",
    "message": (
        "accept accept_claim accept_copies accept_held adopt_transaction_ids browse check_filter check_messages "
        "check_queue_name extend extend_held graduate graduate_batch held_messages is_queue_name message_count "
        "pick_filtered queue_settings reap_messages receive receive_copies refuse_stale register_consumer reject "
        "reject_held release_copies submit submit_batch submit_row take_copies take_messages"
    ),
    "rabbithub": "ensure_built_in_exchanges",
    "relay": "assert_origin groups_of last_batch_no note_batch_no origin scope_of",
    "request": (
        "answer_of answer_request check_contents check_service_name check_services_open claim_requests close_request "
        "extend_requests forget_requests frames_body frames_type has_workers is_plain_type lease_requests make_request "
        "parse_frames reap_requests release_request reply reply_by request request_by request_id service_settings "
        "settle_requests store_requests"
    ),
    "source": "take_records",
    "topic": "is_quiet",
    "task": (
        "announce_tasks bury_tasks claim_task claim_tasks clean_tasks complete_task enqueue_task fail_task "
        "finish_tasks held_tasks notify_tasks notify_way recover_task release_tasks task_backoff_seconds task_is_worn "
        "task_policy waiting_kinds"
    ),
}
NOUNS = {name: noun for noun, names in _NAMES.items() for name in names.split()}
"""The noun of each function: the file that it lies in."""

_FUNCTIONS = """
    SELECT p.proname AS name,
           concat_ws(E'\n',
               rtrim(pg_get_functiondef(p.oid), E'\n') || ';',
               format(E'COMMENT ON FUNCTION %s IS\n%L;', p.oid::regprocedure, obj_description(p.oid, 'pg_proc')),
               CASE WHEN NOT has_function_privilege('public', p.oid, 'EXECUTE')
                    THEN format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure) END) AS text
    FROM pg_proc p WHERE p.pronamespace = 'hookwire'::regnamespace
    ORDER BY p.proname, p.oid::regprocedure::text
"""


async def function_files(database_url: str) -> dict[str, str]:
    """Return the text of each file of `db/functions`, by its name; raise if a function has no noun."""
    connection = await asyncpg.connect(database_url)
    try:
        functions = await connection.fetch(_FUNCTIONS)
    finally:
        await connection.close(timeout=2)
    if unknown := sorted({function["name"] for function in functions} - NOUNS.keys()):
        raise ServerFailedError(f"{', '.join(unknown)}: name the noun of this function in scripts/sql_functions.py")
    texts: dict[str, list[str]] = {}
    for function in functions:
        texts.setdefault(f"{NOUNS[function['name']]}.sql", [_HEAD]).append(function["text"])
    return {file: "\n\n".join(parts) + "\n" for file, parts in texts.items()}


_HEAD = "-- SQL functions as all migrations together make them. Written by `make schema`, never by hand."
