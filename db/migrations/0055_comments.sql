-- What each table, each view and each column that is not obvious holds: db/schema.sql prints it, and psql shows it (\d+).
-- A table without a comment fails tests/db/test_comments.py (HO-08).

-- The three meanings of deliveries.due_at by name (docs/adr/0048-one-column-says-when.md). A claim sets fence, and whatever
-- ends a claim clears it. PostgreSQL inlines the view, so a statement that reads it is planned as one that reads the table.
CREATE VIEW hookwire.open_deliveries AS
SELECT d.event_id, d.subscription_id, d.tenant, d.lane, d.created_at, d.attempts, d.free_attempts, d.replay_id, d.fence,
       d.last_outcome, d.last_status, d.last_seconds, d.parked_at,
       CASE WHEN d.parked_at IS NOT NULL THEN 'parked' WHEN d.fence IS NOT NULL THEN 'claimed'
            WHEN d.due_at = 'infinity' THEN 'blocked' ELSE 'waiting' END AS state,
       CASE WHEN d.fence IS NULL AND d.due_at <> 'infinity' THEN d.due_at END AS available_at,
       CASE WHEN d.fence IS NOT NULL THEN d.due_at END AS lease_until
FROM hookwire.deliveries d;

COMMENT ON TABLE hookwire.api_keys IS 'API keys. A key is known by the SHA-256 of its text; the text is shown once (SE-04).';
COMMENT ON COLUMN hookwire.api_keys.digest IS 'SHA-256 of the key''s text.';
COMMENT ON COLUMN hookwire.api_keys.scopes IS 'What the key may do.';
COMMENT ON COLUMN hookwire.api_keys.topics IS 'Patterns of topics that it may use; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.queues IS 'Patterns of queues; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.kinds IS 'Patterns of kinds of tasks and jobs; NULL: all.';
COMMENT ON COLUMN hookwire.api_keys.services IS 'Patterns of services; NULL: all.';

COMMENT ON TABLE hookwire.attempts IS 'Finished attempts of deliveries, partitioned by event id.';
COMMENT ON COLUMN hookwire.attempts.number IS 'The attempt''s number within its delivery, from 1.';
COMMENT ON COLUMN hookwire.attempts.connect_seconds IS 'Until the connection stood; NULL: a kept connection was used.';
COMMENT ON COLUMN hookwire.attempts.outcome IS 'What the answer, or its absence, means.';
COMMENT ON COLUMN hookwire.attempts.decision IS 'What followed: delivered, retry, park or dead.';
COMMENT ON COLUMN hookwire.attempts.trigger IS 'Why it was made: first, retry, replay or manual.';
COMMENT ON COLUMN hookwire.attempts.address IS 'The IP address that was dialled.';
COMMENT ON COLUMN hookwire.attempts.detail IS 'One line for the subscriber.';
COMMENT ON COLUMN hookwire.attempts.response_headers IS 'Some headers of an answer that was no success.';
COMMENT ON COLUMN hookwire.attempts.response_body IS 'The first bytes of an answer that was no success.';

COMMENT ON TABLE hookwire.audit IS 'What operators did, to what, and why; written in the statement that does it.';
COMMENT ON COLUMN hookwire.audit.actor IS 'The public id or name of the key that was used.';
COMMENT ON COLUMN hookwire.audit.action IS 'The operation, as noun.verb.';
COMMENT ON COLUMN hookwire.audit.subject IS 'What it was done to.';
COMMENT ON COLUMN hookwire.audit.records IS 'How many records it concerned.';

COMMENT ON TABLE hookwire.compat_parked IS
    'Compat mode: keys of goharvest''s table whose record Kafka refused. Deleting a row tries the key again at once.';
COMMENT ON COLUMN hookwire.compat_parked.outbox IS 'goharvest''s table, quoted as PostgreSQL quotes it.';
COMMENT ON COLUMN hookwire.compat_parked.record_id IS 'The id of the refused record in that table.';
COMMENT ON COLUMN hookwire.compat_parked.reason IS 'The kind of refusal.';
COMMENT ON COLUMN hookwire.compat_parked.attempts IS 'How often the record was probed.';
COMMENT ON COLUMN hookwire.compat_parked.since IS 'When the key was parked.';
COMMENT ON COLUMN hookwire.compat_parked.probe_at IS 'When Kafka is asked again.';
COMMENT ON COLUMN hookwire.compat_parked.key IS 'The key of the refused record.';

COMMENT ON TABLE hookwire.consumers IS 'Durable consumers of copies, each with its position (xid, id) in the log.';
COMMENT ON COLUMN hookwire.consumers.xid IS 'The position: the transaction of the last accepted message.';
COMMENT ON COLUMN hookwire.consumers.id IS 'The position: messages up to this id are accepted.';
COMMENT ON COLUMN hookwire.consumers.after_id IS 'Of the messages before its registration it reads those above this id.';
COMMENT ON COLUMN hookwire.consumers.since IS 'And those from this moment on.';
COMMENT ON COLUMN hookwire.consumers.claim IS 'The fence of the reader that holds the next messages.';

COMMENT ON TABLE hookwire.dead_letters IS 'Deliveries that were given up; they can be replayed or purged.';
COMMENT ON COLUMN hookwire.dead_letters.kind IS 'Why: exhausted, declined, gone, aborted or internal.';
COMMENT ON COLUMN hookwire.dead_letters.last_status IS 'The status of the last answer.';
COMMENT ON COLUMN hookwire.dead_letters.last_outcome IS 'The class of the last attempt''s outcome.';

COMMENT ON TABLE hookwire.dead_messages IS 'Messages that were delivered too often or given up.';
COMMENT ON COLUMN hookwire.dead_messages.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.dead_messages.receiver IS 'The client that held it last.';
COMMENT ON COLUMN hookwire.dead_messages.type IS 'As in messages.';

COMMENT ON TABLE hookwire.dead_tasks IS 'Tasks that were given up.';
COMMENT ON COLUMN hookwire.dead_tasks.number IS 'Tells rows of one id apart.';
COMMENT ON COLUMN hookwire.dead_tasks.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.dead_tasks.told_at IS 'When operators were notified.';

COMMENT ON TABLE hookwire.deliveries IS
    'Open deliveries: a row for each event and subscription until it is delivered or dead. open_deliveries shows its state.';
COMMENT ON COLUMN hookwire.deliveries.due_at IS
    'When a claim may take the row. Waiting: not before. Claimed (fence set): the end of the lease. Blocked or parked: infinity.';
COMMENT ON COLUMN hookwire.deliveries.created_at IS 'When the fan-out made it; a parked delivery that is retried begins anew.';
COMMENT ON COLUMN hookwire.deliveries.fence IS
    'The token of the current claim; NULL: not claimed. A settlement under another token changes nothing.';
COMMENT ON COLUMN hookwire.deliveries.attempts IS 'Attempts that were claimed, also one that killed its worker.';
COMMENT ON COLUMN hookwire.deliveries.lane IS
    'The key of an ordered subscription; only the lowest event of a lane is ever claimed. NULL: no order.';
COMMENT ON COLUMN hookwire.deliveries.free_attempts IS
    'Attempts outside the retry schedule: attempts - free_attempts is the place in it.';
COMMENT ON COLUMN hookwire.deliveries.woken_at IS 'WebSub: when new content woke it last.';
COMMENT ON COLUMN hookwire.deliveries.planned_at IS
    'When the retry schedule goes on after an attempt out of turn; NULL: in its ordinary course.';
COMMENT ON COLUMN hookwire.deliveries.replay_id IS 'The replay that made it; 0: a single event was sent again; NULL: none.';
COMMENT ON COLUMN hookwire.deliveries.last_outcome IS 'The class of the last attempt''s outcome.';
COMMENT ON COLUMN hookwire.deliveries.last_status IS 'The status of the last answer.';
COMMENT ON COLUMN hookwire.deliveries.last_seconds IS 'How long the last attempt took.';
COMMENT ON COLUMN hookwire.deliveries.parked_at IS 'Since when the head of a lane waits for a decision; due_at is infinity then.';

COMMENT ON TABLE hookwire.delivery_failures IS
    'Subscriptions that have failed lately, as all workers together count it. Most subscriptions have no row.';
COMMENT ON COLUMN hookwire.delivery_failures.failures IS 'Failures in a row, up to now.';
COMMENT ON COLUMN hookwire.delivery_failures.failures_before IS
    'The same before the last settlement: tells which levels that one passed.';
COMMENT ON COLUMN hookwire.delivery_failures.succeeded_at IS 'The last success that is known.';
COMMENT ON COLUMN hookwire.delivery_failures.settled_at IS
    'When the last attempts were settled, oldest first; the breaker is judged by them.';
COMMENT ON COLUMN hookwire.delivery_failures.failed IS 'Whether each of these attempts failed.';
COMMENT ON COLUMN hookwire.delivery_failures.failing_since IS
    'The first failure since the last success; NULL: the last attempt succeeded.';
COMMENT ON COLUMN hookwire.delivery_failures.last_outcome IS 'Of the latest failure.';
COMMENT ON COLUMN hookwire.delivery_failures.last_status IS 'Of the latest failure.';

COMMENT ON TABLE hookwire.delivery_gates IS
    'Throttles: rate limit and circuit breaker of subscriptions that have one. Each claim locks the rows that it passes.';
COMMENT ON COLUMN hookwire.delivery_gates.tokens IS 'Deliveries that the rate limit allows, as of refilled_at.';
COMMENT ON COLUMN hookwire.delivery_gates.trips IS
    'How often the breaker has opened since a success; above 0 one delivery at a time passes, as a probe.';
COMMENT ON COLUMN hookwire.delivery_gates.open_until IS
    'Until when the breaker lets nothing pass, or until when its probe is out.';
COMMENT ON COLUMN hookwire.delivery_gates.failing_since IS 'The first trip since a success.';

COMMENT ON TABLE hookwire.events IS
    'Published events with their contents, partitioned by id. No foreign key refers to it, so that partitions can be dropped (RR-05).';
COMMENT ON COLUMN hookwire.events.id IS 'Drawn under the key''s stripe lock: ids of one key rise in commit order.';
COMMENT ON COLUMN hookwire.events.accepted_at IS 'When the publishing transaction stored the event, by the database''s clock.';
COMMENT ON COLUMN hookwire.events.ordered IS
    'Whether the topic kept order when the event was accepted; then id is also the sequence.';
COMMENT ON COLUMN hookwire.events.sinks IS 'The sinks that the event was owed to at its acceptance.';
COMMENT ON COLUMN hookwire.events.payload IS 'The body as it was received; empty for a tombstone, which a header marks.';

COMMENT ON TABLE hookwire.fanout_cursors IS 'Events that are fanned out in slices, because they have many subscriptions.';
COMMENT ON COLUMN hookwire.fanout_cursors.last_subscription_id IS 'Up to here deliveries are made.';
COMMENT ON COLUMN hookwire.fanout_cursors.upper_subscription_id IS
    'The last subscription of the fan-out, fixed by its first slice.';

COMMENT ON TABLE hookwire.foreign_topics IS 'Topics of other publishers: named by their URL and fetched when a publisher pings.';
COMMENT ON COLUMN hookwire.foreign_topics.self_url IS 'The topic as the content names itself.';
COMMENT ON COLUMN hookwire.foreign_topics.hub_url IS 'The hub that the content names.';
COMMENT ON COLUMN hookwire.foreign_topics.feed_diff IS 'Atom and RSS: whether only new and changed entries are delivered.';
COMMENT ON COLUMN hookwire.foreign_topics.always_deliver IS 'Whether unchanged content is delivered too.';
COMMENT ON COLUMN hookwire.foreign_topics.pings IS 'Pings that were received.';
COMMENT ON COLUMN hookwire.foreign_topics.pings_fetched IS 'Pings that the latest good fetch covers.';
COMMENT ON COLUMN hookwire.foreign_topics.due_at IS 'When it is fetched next; NULL: there is nothing to fetch.';
COMMENT ON COLUMN hookwire.foreign_topics.claimed_until IS 'Until when one process fetches it.';
COMMENT ON COLUMN hookwire.foreign_topics.claims IS 'Claims so far; the number of the latest is its fence.';
COMMENT ON COLUMN hookwire.foreign_topics.failures IS 'Failed fetches in a row.';
COMMENT ON COLUMN hookwire.foreign_topics.etag IS 'For conditional requests.';
COMMENT ON COLUMN hookwire.foreign_topics.last_modified IS 'For conditional requests.';
COMMENT ON COLUMN hookwire.foreign_topics.digest IS 'SHA-256 of the type and content that was fetched last.';
COMMENT ON COLUMN hookwire.foreign_topics.entries IS 'Digests of a feed''s entries, by id.';
COMMENT ON COLUMN hookwire.foreign_topics.url IS 'As it was first named; where it is fetched.';

COMMENT ON TABLE hookwire.former_audiences IS
    'What subscriptions wanted before a change, for events up to until_id. The fan-out judges an event by its acceptance (FC-08).';
COMMENT ON COLUMN hookwire.former_audiences.until_id IS 'The last event that is judged by this row.';
COMMENT ON COLUMN hookwire.former_audiences.topic_regex IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.filter_path IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.lease_until IS 'As in subscriptions, before the change.';
COMMENT ON COLUMN hookwire.former_audiences.number IS 'Tells rows of one subscription apart.';

COMMENT ON TABLE hookwire.held IS 'Outbox records behind a hold; they are drained in order before the hold is lifted.';
COMMENT ON COLUMN hookwire.held.id IS 'The id of the event.';
COMMENT ON COLUMN hookwire.held.key IS 'As in holds.';
COMMENT ON COLUMN hookwire.held.shard IS 'As in outbox.';
COMMENT ON COLUMN hookwire.held.layout IS 'As in outbox.';
COMMENT ON COLUMN hookwire.held.grp IS 'The partition group of the hold.';

COMMENT ON TABLE hookwire.holds IS
    'Keys and topics that a sink does not carry on, because it refused a record. Their records wait in held.';
COMMENT ON COLUMN hookwire.holds.key IS 'The key that is held; empty: the whole topic.';
COMMENT ON COLUMN hookwire.holds.reason IS 'The kind of refusal.';
COMMENT ON COLUMN hookwire.holds.attempts IS 'How often the record was probed.';
COMMENT ON COLUMN hookwire.holds.since IS 'When the hold began.';
COMMENT ON COLUMN hookwire.holds.probe_at IS 'When the sink is asked again.';
COMMENT ON COLUMN hookwire.holds.id IS 'The event that was refused.';
COMMENT ON COLUMN hookwire.holds.grp IS 'The partition group, each with its own progress.';

COMMENT ON TABLE hookwire.id_watermarks IS 'The last event id of each day: the rate by which partitions are made ahead.';
COMMENT ON COLUMN hookwire.id_watermarks.last_id IS 'The last event id that was drawn on that day.';

COMMENT ON TABLE hookwire.idempotency_keys IS
    'Idempotency keys of publishers, each with its answer. Not partitioned, so that partitions of events can go (RR-05).';
COMMENT ON COLUMN hookwire.idempotency_keys.fingerprint IS 'A hash of the draft: another draft under the same key is a conflict.';
COMMENT ON COLUMN hookwire.idempotency_keys.ordered IS 'As in events, for the answer.';

COMMENT ON TABLE hookwire.installation IS
    'One row: what makes this installation itself, and what its publishing functions need of the settings.';
COMMENT ON COLUMN hookwire.installation.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.installation.incarnation IS
    'Eight characters drawn when the database was made; part of each public event id.';
COMMENT ON COLUMN hookwire.installation.layout IS 'The number of the current layout of shards and partition groups.';
COMMENT ON COLUMN hookwire.installation.topics_auto_create IS 'Whether a first publish creates its topic.';
COMMENT ON COLUMN hookwire.installation.sql_notify IS 'Whether hookwire.publish sends NOTIFY (RR-15).';
COMMENT ON COLUMN hookwire.installation.queues_auto_create IS 'Whether a first message creates its queue.';
COMMENT ON COLUMN hookwire.installation.kinds_auto_create IS 'Whether a first job creates its kind.';
COMMENT ON COLUMN hookwire.installation.services_auto_create IS 'Whether a first request creates its service.';

COMMENT ON TABLE hookwire.intents IS 'WebSub requests to subscribe or unsubscribe, until they are decided and for a day after.';
COMMENT ON COLUMN hookwire.intents.mode IS 'subscribe or unsubscribe.';
COMMENT ON COLUMN hookwire.intents.topic_url IS 'The topic''s URL as the request named it.';
COMMENT ON COLUMN hookwire.intents.callback_host IS 'For limits that count by host.';
COMMENT ON COLUMN hookwire.intents.identity IS 'SHA-256 of topic and callback, as in subscriptions.';
COMMENT ON COLUMN hookwire.intents.verify_token IS 'PubSubHubbub 0.3: the token that is echoed.';
COMMENT ON COLUMN hookwire.intents.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.intents.sealed IS 'The subscriber''s secret, encrypted.';
COMMENT ON COLUMN hookwire.intents.due_at IS 'When the next step is made; while a step is under way, the end of its lease.';
COMMENT ON COLUMN hookwire.intents.stage IS
    'The next step: ask the publisher (validate), ask the callback (verify), or tell it no (deny).';
COMMENT ON COLUMN hookwire.intents.stage_from IS 'How many attempts had been made when the current step began.';
COMMENT ON COLUMN hookwire.intents.denial IS 'Why it is denied.';
COMMENT ON COLUMN hookwire.intents.requester IS 'Who sent the request: a key or an account.';
COMMENT ON COLUMN hookwire.intents.verify IS 'PubSubHubbub 0.3: sync or async.';
COMMENT ON COLUMN hookwire.intents.permanent IS 'Whether the request named no lease (PubSubHubbub 0.3).';
COMMENT ON COLUMN hookwire.intents.rabbithub IS 'What a verified request makes in RabbitHub; NULL: a WebSub subscription.';
COMMENT ON COLUMN hookwire.intents.requester_network IS 'As in subscriptions.';
COMMENT ON COLUMN hookwire.intents.state IS 'requested, verifying, verified, failed, superseded or denied.';

COMMENT ON TABLE hookwire.job_archive IS 'Ended jobs.';
COMMENT ON COLUMN hookwire.job_archive.seq IS 'The order of enqueueing.';
COMMENT ON COLUMN hookwire.job_archive.state IS 'How it ended: completed, cancelled or discarded.';
COMMENT ON COLUMN hookwire.job_archive.args IS 'The arguments.';
COMMENT ON COLUMN hookwire.job_archive.key IS 'As in jobs.';
COMMENT ON COLUMN hookwire.job_archive.uniq IS 'As in jobs.';
COMMENT ON COLUMN hookwire.job_archive.number IS 'The number of its last change of state.';
COMMENT ON COLUMN hookwire.job_archive.assignee IS 'As in jobs.';
COMMENT ON COLUMN hookwire.job_archive.performer IS 'As in jobs.';
COMMENT ON COLUMN hookwire.job_archive.errors IS 'Failures.';
COMMENT ON COLUMN hookwire.job_archive.reason IS 'Why it was cancelled or discarded.';
COMMENT ON COLUMN hookwire.job_archive.created_by IS 'As in jobs.';
COMMENT ON COLUMN hookwire.job_archive.ended_by IS 'The key, person or worker that ended it.';

COMMENT ON TABLE hookwire.job_kinds IS 'How jobs of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';
COMMENT ON COLUMN hookwire.job_kinds.automation IS
    'Whether jobs go to people, machines or both: manual, assisted, mostly or automatic.';
COMMENT ON COLUMN hookwire.job_kinds.machine_percent IS 'With automation mostly: the share of jobs that goes to machines.';
COMMENT ON COLUMN hookwire.job_kinds.machine_rule IS 'With automation mostly: jobs whose arguments contain it go to machines.';
COMMENT ON COLUMN hookwire.job_kinds.needs_review IS 'Whether a result has to be reviewed.';
COMMENT ON COLUMN hookwire.job_kinds.reviewer_differs IS 'Whether the reviewer must not be the performer.';
COMMENT ON COLUMN hookwire.job_kinds.escalate_to IS 'Who gets a job that is past its due time.';
COMMENT ON COLUMN hookwire.job_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';
COMMENT ON COLUMN hookwire.job_kinds.ageing_seconds IS 'The waiting time that is worth one step of priority.';
COMMENT ON COLUMN hookwire.job_kinds.running_max IS 'How many jobs of the kind run at once.';
COMMENT ON COLUMN hookwire.job_kinds.key_running_max IS 'How many jobs of one key run at once.';
COMMENT ON COLUMN hookwire.job_kinds.key_rate_per_second IS 'How many jobs of one key start in a second.';
COMMENT ON COLUMN hookwire.job_kinds.key_burst IS 'How many of these may start at once.';
COMMENT ON COLUMN hookwire.job_kinds.events IS 'The states whose changes are published.';
COMMENT ON COLUMN hookwire.job_kinds.retention_days IS 'How long ended jobs stay in the archive; 0: they are not kept.';
COMMENT ON COLUMN hookwire.job_kinds.is_paused IS 'Whether nothing of the kind is claimed.';
COMMENT ON COLUMN hookwire.job_kinds.deadline_seconds IS 'From the submission of a job to its end; NULL: no limit.';

COMMENT ON TABLE hookwire.job_rates IS
    'Tokens of the rate limits of jobs: one row for a limited key, written under the lock of its kind.';
COMMENT ON COLUMN hookwire.job_rates.tokens IS 'As of counted_at.';
COMMENT ON COLUMN hookwire.job_rates.counted_at IS 'When the tokens were counted last.';

COMMENT ON TABLE hookwire.job_requests IS 'Callbacks of requests that enqueued a job, or merged with one.';
COMMENT ON COLUMN hookwire.job_requests.number IS 'The order of the requests.';
COMMENT ON COLUMN hookwire.job_requests.requester IS 'The key or role that asked.';
COMMENT ON COLUMN hookwire.job_requests.callbacks IS 'The kinds of the jobs that follow each end of the job.';

COMMENT ON TABLE hookwire.job_schedules IS 'Schedules that enqueue jobs by a cron expression.';
COMMENT ON COLUMN hookwire.job_schedules.cron IS 'The cron expression.';
COMMENT ON COLUMN hookwire.job_schedules.zone IS 'The time zone in which it is read.';
COMMENT ON COLUMN hookwire.job_schedules.missed IS 'What happens to times that were missed: skip, coalesce or catch_up.';
COMMENT ON COLUMN hookwire.job_schedules.job IS 'The draft that is enqueued.';
COMMENT ON COLUMN hookwire.job_schedules.next_at IS 'The next time.';
COMMENT ON COLUMN hookwire.job_schedules.last_at IS 'The last time that was enqueued.';

COMMENT ON TABLE hookwire.jobs IS
    'Live jobs, for people and machines. Ended jobs leave the table in the statement that ends them.';
COMMENT ON COLUMN hookwire.jobs.seq IS 'The order of enqueueing.';
COMMENT ON COLUMN hookwire.jobs.state IS 'scheduled, available, assigned, running, review or retryable.';
COMMENT ON COLUMN hookwire.jobs.for_people IS 'Whether a person does it.';
COMMENT ON COLUMN hookwire.jobs.args IS 'The arguments.';
COMMENT ON COLUMN hookwire.jobs.key IS 'By which limits count.';
COMMENT ON COLUMN hookwire.jobs.uniq IS 'Of live jobs with the same kind and uniq there is one.';
COMMENT ON COLUMN hookwire.jobs.rank_at IS
    'The order of claims: when it became available, less one ageing interval for each step of priority.';
COMMENT ON COLUMN hookwire.jobs.due_at IS
    'Scheduled or retryable: when it becomes available. Assigned: when the person should be done.';
COMMENT ON COLUMN hookwire.jobs.due_local IS 'A far date as local time, computed again when time zones change.';
COMMENT ON COLUMN hookwire.jobs.due_zone IS 'The time zone of due_local.';
COMMENT ON COLUMN hookwire.jobs.on_due IS 'What happens then: remind, escalate or unassign.';
COMMENT ON COLUMN hookwire.jobs.deadline_at IS 'When it is discarded unless it has ended.';
COMMENT ON COLUMN hookwire.jobs.claim IS 'The fence of the current claim.';
COMMENT ON COLUMN hookwire.jobs.run_until IS 'When the current attempt has lasted too long.';
COMMENT ON COLUMN hookwire.jobs.is_cancelled IS 'Whether its worker is asked to stop.';
COMMENT ON COLUMN hookwire.jobs.assignee IS 'The person who holds it.';
COMMENT ON COLUMN hookwire.jobs.performer IS 'The person or worker whose result is in review.';
COMMENT ON COLUMN hookwire.jobs.number IS 'The number of its latest change of state.';
COMMENT ON COLUMN hookwire.jobs.progress_done IS 'Units of work that are done.';
COMMENT ON COLUMN hookwire.jobs.progress_total IS 'Units of work in all.';
COMMENT ON COLUMN hookwire.jobs.progress_note IS 'A line about the progress.';
COMMENT ON COLUMN hookwire.jobs.token IS 'By which a parked job is resumed.';
COMMENT ON COLUMN hookwire.jobs.resumed IS 'What the resumption brought.';
COMMENT ON COLUMN hookwire.jobs.errors IS 'Failures so far.';
COMMENT ON COLUMN hookwire.jobs.created_by IS 'The key or role that enqueued it.';
COMMENT ON COLUMN hookwire.jobs.lease_until IS 'When the keeper ends the claim; never later than run_until and deadline_at.';

COMMENT ON TABLE hookwire.lake_backlog IS 'Gold table of the lake: deliveries that waited, by topic and subscription.';
COMMENT ON COLUMN hookwire.lake_backlog.at IS 'The moment of the count.';
COMMENT ON COLUMN hookwire.lake_backlog.waiting IS 'Deliveries that waited.';
COMMENT ON COLUMN hookwire.lake_backlog.oldest_seconds IS 'The age of the oldest of them.';

COMMENT ON TABLE hookwire.lake_batches IS 'Batches of the lake that are in the gold tables: a batch that is here is not stored again.';
COMMENT ON COLUMN hookwire.lake_batches.job IS 'The job of the lake that made the batch.';
COMMENT ON COLUMN hookwire.lake_batches.batch IS 'The batch''s name in the lake.';

COMMENT ON TABLE hookwire.lake_metrics IS 'Gold table of the lake: attempts by hour, topic and subscription.';
COMMENT ON COLUMN hookwire.lake_metrics.attempts IS 'Attempts in the hour.';
COMMENT ON COLUMN hookwire.lake_metrics.delivered IS 'Attempts that succeeded.';
COMMENT ON COLUMN hookwire.lake_metrics.retries IS 'Attempts after the first of their delivery.';
COMMENT ON COLUMN hookwire.lake_metrics.dead IS 'Deliveries that were given up.';
COMMENT ON COLUMN hookwire.lake_metrics.p50_seconds IS 'The median of the attempts'' durations.';
COMMENT ON COLUMN hookwire.lake_metrics.p95_seconds IS 'The 95th percentile.';
COMMENT ON COLUMN hookwire.lake_metrics.p99_seconds IS 'The 99th percentile.';
COMMENT ON COLUMN hookwire.lake_metrics.tries_to_success IS
    'The mean number of the attempt that delivered; NULL: nothing was delivered.';
COMMENT ON COLUMN hookwire.lake_metrics.oldest_seconds IS 'How long the event that had waited longest had waited.';
COMMENT ON COLUMN hookwire.lake_metrics.subscription IS 'The public id.';

COMMENT ON TABLE hookwire.lake_slo IS 'Gold table of the lake: service levels by day and subscription.';
COMMENT ON COLUMN hookwire.lake_slo.attempts IS 'Attempts in the 28 days.';
COMMENT ON COLUMN hookwire.lake_slo.delivered IS 'Attempts that delivered.';
COMMENT ON COLUMN hookwire.lake_slo.share IS 'The share of attempts that delivered, over 28 days.';
COMMENT ON COLUMN hookwire.lake_slo.target IS 'The share that is promised.';
COMMENT ON COLUMN hookwire.lake_slo.burn IS 'The part of the error budget that is used up; above 1 it is exceeded.';
COMMENT ON COLUMN hookwire.lake_slo.subscription IS 'The public id; empty: all of the tenant''s together.';

COMMENT ON TABLE hookwire.layouts IS
    'Layouts of shards: shard s belongs to partition group s modulo the number of groups. A layout never changes.';
COMMENT ON COLUMN hookwire.layouts.number IS 'The layout''s number; the installation names the current one.';
COMMENT ON COLUMN hookwire.layouts.groups IS 'How many partition groups each sink has.';
COMMENT ON COLUMN hookwire.layouts.order_scope IS
    'What is kept in order: the key of a topic (topic_key) or a key in all topics (key).';
COMMENT ON COLUMN hookwire.layouts.hash_version IS 'Which hash of topic and key chooses the shard.';

COMMENT ON TABLE hookwire.ledger IS
    'How many events were accepted for each sink and how many left the outbox, with checksums that need no order.';
COMMENT ON COLUMN hookwire.ledger.sink IS 'Empty: all accepted events.';
COMMENT ON COLUMN hookwire.ledger.hour IS 'The hour of acceptance.';
COMMENT ON COLUMN hookwire.ledger.bucket IS 'The event id modulo 4.';
COMMENT ON COLUMN hookwire.ledger.owed_count IS 'Events that were accepted for the sink.';
COMMENT ON COLUMN hookwire.ledger.owed_sum IS 'The sum of their ids.';
COMMENT ON COLUMN hookwire.ledger.owed_min IS 'The lowest of their ids.';
COMMENT ON COLUMN hookwire.ledger.owed_max IS 'The highest of their ids.';
COMMENT ON COLUMN hookwire.ledger.sent_count IS 'Events that the sink confirmed.';
COMMENT ON COLUMN hookwire.ledger.dead_count IS 'Events that were given up.';
COMMENT ON COLUMN hookwire.ledger.settled_sum IS 'The sum of the ids that were confirmed or given up.';
COMMENT ON COLUMN hookwire.ledger.settled_min IS 'The lowest of these ids.';
COMMENT ON COLUMN hookwire.ledger.settled_max IS 'The highest of these ids.';
COMMENT ON COLUMN hookwire.ledger.owed_content IS 'The sum of the hashes of owed events.';
COMMENT ON COLUMN hookwire.ledger.content_count IS 'Of how many events owed_content is the sum.';

COMMENT ON TABLE hookwire.ledger_cursor IS 'How far events are folded into the ledger.';
COMMENT ON COLUMN hookwire.ledger_cursor.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.ledger_cursor.since_at IS 'Hours that began before are not judged.';
COMMENT ON COLUMN hookwire.ledger_cursor.through_id IS 'Events up to this id are folded.';
COMMENT ON COLUMN hookwire.ledger_cursor.through_at IS 'When that id was the last one drawn.';
COMMENT ON COLUMN hookwire.ledger_cursor.mark_id IS 'The id that is folded to next, once no transaction before mark_xid runs.';
COMMENT ON COLUMN hookwire.ledger_cursor.mark_xid IS 'The transaction id that was drawn after mark_id.';

COMMENT ON TABLE hookwire.ledger_entries IS
    'What left the outbox: one row for each batch, written in the statement that deletes, folded into the ledger later.';
COMMENT ON COLUMN hookwire.ledger_entries.outcome IS 'sent, dead or revived.';
COMMENT ON COLUMN hookwire.ledger_entries.ids IS 'The events of the batch.';

COMMENT ON TABLE hookwire.message_archive IS 'Accepted messages of queues that keep history.';
COMMENT ON COLUMN hookwire.message_archive.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.message_archive.receiver IS 'The client that accepted it.';
COMMENT ON COLUMN hookwire.message_archive.type IS 'As in messages.';

COMMENT ON TABLE hookwire.message_log IS 'Copies: an append-only log that durable consumers read.';
COMMENT ON COLUMN hookwire.message_log.xid IS 'The transaction that submitted it: with id the place in the log.';
COMMENT ON COLUMN hookwire.message_log.type IS 'As in messages.';

COMMENT ON TABLE hookwire.messages IS 'Live messages. Accepted and dead ones leave the table in the statement that settles them.';
COMMENT ON COLUMN hookwire.messages.claim IS 'The fence of the current lease; NULL: available or delayed.';
COMMENT ON COLUMN hookwire.messages.due_at IS 'Not available before; NULL: at once.';
COMMENT ON COLUMN hookwire.messages.lease_until IS 'When the reaper makes it available again.';
COMMENT ON COLUMN hookwire.messages.deliveries IS 'How often it was handed to a receiver.';
COMMENT ON COLUMN hookwire.messages.receiver IS 'The client that holds it.';
COMMENT ON COLUMN hookwire.messages.type IS 'A word by which receivers filter.';
COMMENT ON COLUMN hookwire.messages.last_reason IS 'Why it was rejected last.';

COMMENT ON TABLE hookwire.migrations IS 'Migrations that were applied, with checksums: a database with another history is refused.';
COMMENT ON COLUMN hookwire.migrations.version IS 'The number in the file''s name.';
COMMENT ON COLUMN hookwire.migrations.checksum IS 'SHA-256 of the file.';

COMMENT ON TABLE hookwire.outbox IS
    'What each sink is still owed: one row for each event and sink, deleted when the sink has confirmed it.';
COMMENT ON COLUMN hookwire.outbox.id IS 'The id of the event.';
COMMENT ON COLUMN hookwire.outbox.layout IS 'The layout under which the shard was computed.';
COMMENT ON COLUMN hookwire.outbox.shard IS 'One of 64 parts of the key space; of an event without a key, a part by its id.';

COMMENT ON TABLE hookwire.queues IS 'Message queues: rows of settings. Messages name their queue and need no row (RR-04).';
COMMENT ON COLUMN hookwire.queues.moves IS 'Whether receivers take messages off the queue.';
COMMENT ON COLUMN hookwire.queues.copies IS 'Whether durable consumers read copies.';
COMMENT ON COLUMN hookwire.queues.history IS 'Whether accepted messages go into the archive.';
COMMENT ON COLUMN hookwire.queues.deliveries_max IS 'How often a message is delivered before it is a dead letter.';
COMMENT ON COLUMN hookwire.queues.retention_days IS 'How long archive, copies and dead letters are kept.';
COMMENT ON COLUMN hookwire.queues.paused IS 'Whether receivers get nothing.';
COMMENT ON COLUMN hookwire.queues.owner IS 'Of a temporary queue: the client that may remove it.';
COMMENT ON COLUMN hookwire.queues.lifetime_seconds IS 'Of a temporary queue: how far a receive puts the end off.';
COMMENT ON COLUMN hookwire.queues.graduated IS 'Whether its messages lie in a table of their own, messages_<id>.';
COMMENT ON COLUMN hookwire.queues.expires_at IS 'Of a temporary queue: when it is removed; put off by each receive.';

COMMENT ON TABLE hookwire.rabbithub_resources IS 'RabbitHub: exchanges and queues of each virtual host.';
COMMENT ON COLUMN hookwire.rabbithub_resources.kind IS 'x: exchange, q: queue.';
COMMENT ON COLUMN hookwire.rabbithub_resources.source IS 'Of a queue: the pull subscription that keeps its messages.';
COMMENT ON COLUMN hookwire.rabbithub_resources.mirror IS
    'Whether the exchange is mirrored to AMQP; NULL: as the hub''s setting says.';

COMMENT ON TABLE hookwire.rabbithub_subscriptions IS 'RabbitHub: what a subscription to an exchange or a queue has beside the common columns.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.resource_id IS 'The exchange or queue.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.hub_topic IS 'The routing pattern as it was asked for.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.details IS 'contact, ha_mode and max_tps, as they were given.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.queue_id IS 'Of a binding: the queue that gets the messages.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.error_count IS 'Failed deliveries since it began.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_from IS 'When the current window of the error policy began.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_errors IS 'Failed deliveries in that window.';
COMMENT ON COLUMN hookwire.rabbithub_subscriptions.told_until IS 'The end of the lease that operators were notified of.';

COMMENT ON TABLE hookwire.readiness IS 'One row that the readiness check changes, to see that the server can write (FC-06).';
COMMENT ON COLUMN hookwire.readiness.singleton IS 'Always true: there is one row.';
COMMENT ON COLUMN hookwire.readiness.written_at IS 'When the check wrote last.';

COMMENT ON TABLE hookwire.relay_batch_numbers IS
    'The last batch number of each partition group: the next one is a new row, and replaces its predecessor.';
COMMENT ON COLUMN hookwire.relay_batch_numbers.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_batch_numbers.batch_no IS 'The last number that was drawn.';

COMMENT ON TABLE hookwire.relay_batches IS 'Manifests: the records of each Kafka batch, stored before the batch is sent (RR-06).';
COMMENT ON COLUMN hookwire.relay_batches.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_batches.batch_no IS 'The number that the batch carries into Kafka''s transaction.';
COMMENT ON COLUMN hookwire.relay_batches.shards IS 'The shard of each record, in the order of ids.';
COMMENT ON COLUMN hookwire.relay_batches.ids IS 'The events of the batch.';

COMMENT ON TABLE hookwire.relay_dead_letters IS 'Records of Kafka and AMQP that were given up. They keep their place in the outbox''s order.';
COMMENT ON COLUMN hookwire.relay_dead_letters.shard IS 'As in outbox.';
COMMENT ON COLUMN hookwire.relay_dead_letters.layout IS 'As in outbox.';
COMMENT ON COLUMN hookwire.relay_dead_letters.reason IS 'The kind of refusal.';

COMMENT ON TABLE hookwire.relay_members IS 'Relay processes that are alive. Each holds a session lock on its id.';
COMMENT ON COLUMN hookwire.relay_members.id IS 'The number that the process has locked.';
COMMENT ON COLUMN hookwire.relay_members.sinks IS 'The sinks for which it stands as a candidate.';
COMMENT ON COLUMN hookwire.relay_members.until IS 'When it counts as dead unless it has sent another heartbeat.';

COMMENT ON TABLE hookwire.relay_terms IS
    'Leadership of each sink and partition group: the lease and the term that fences former leaders (RR-08).';
COMMENT ON COLUMN hookwire.relay_terms.grp IS 'The partition group.';
COMMENT ON COLUMN hookwire.relay_terms.layout IS 'The layout of the group''s current leader.';
COMMENT ON COLUMN hookwire.relay_terms.term IS
    'Rises with each change of leader; each deciding write locks the row with the term that it expects.';
COMMENT ON COLUMN hookwire.relay_terms.owner IS 'The name of the process that leads.';
COMMENT ON COLUMN hookwire.relay_terms.lease_until IS 'When another process may take over.';
COMMENT ON COLUMN hookwire.relay_terms.batch_no IS
    'The last batch number when the term began; relay_batch_numbers counts on from there.';
COMMENT ON COLUMN hookwire.relay_terms.member IS 'The relay process that holds the lease.';
COMMENT ON COLUMN hookwire.relay_terms.is_open IS 'False: the lease cannot be acquired, because the layout changes.';

COMMENT ON TABLE hookwire.replays IS 'Replays: events or dead letters that are sent again, in steps.';
COMMENT ON COLUMN hookwire.replays.source IS 'events or dead_letters.';
COMMENT ON COLUMN hookwire.replays.kinds IS 'Which kinds of dead letters; NULL: all.';
COMMENT ON COLUMN hookwire.replays.statuses IS 'Dead letters with which last status; NULL: all.';
COMMENT ON COLUMN hookwire.replays.event_ids IS 'Which events; NULL: all in the range.';
COMMENT ON COLUMN hookwire.replays.since_at IS 'Only events accepted from then on.';
COMMENT ON COLUMN hookwire.replays.until_at IS 'Only events accepted before.';
COMMENT ON COLUMN hookwire.replays.lower_event_id IS 'The first event of the range.';
COMMENT ON COLUMN hookwire.replays.last_event_id IS 'Up to here the range is done.';
COMMENT ON COLUMN hookwire.replays.last_subscription_id IS 'Up to here the current event is done.';
COMMENT ON COLUMN hookwire.replays.upper_event_id IS 'The last event of the range, fixed at the start.';
COMMENT ON COLUMN hookwire.replays.examined IS 'Events or dead letters that were looked at.';
COMMENT ON COLUMN hookwire.replays.replayed IS 'Deliveries that were made.';
COMMENT ON COLUMN hookwire.replays.due_at IS 'When the next step is made.';

COMMENT ON TABLE hookwire.request_archive IS 'What closed requests leave: the audit, without contents.';
COMMENT ON COLUMN hookwire.request_archive.via IS 'As in requests.';
COMMENT ON COLUMN hookwire.request_archive.caller IS 'As in requests.';
COMMENT ON COLUMN hookwire.request_archive.closed_by IS 'The key, role or deadline that closed it.';
COMMENT ON COLUMN hookwire.request_archive.state IS 'The state in which it was closed.';

COMMENT ON TABLE hookwire.request_keys IS 'Requests by client and message number: the same pair is the same request.';
COMMENT ON COLUMN hookwire.request_keys.client IS 'The client''s id.';
COMMENT ON COLUMN hookwire.request_keys.number IS 'The client''s number of the message.';
COMMENT ON COLUMN hookwire.request_keys.digest IS 'Of the request: another request under the same pair is refused.';

COMMENT ON TABLE hookwire.requests IS 'Requests to services, from all protocols, until they are closed.';
COMMENT ON COLUMN hookwire.requests.number IS 'The order of acceptance.';
COMMENT ON COLUMN hookwire.requests.deadline_at IS 'When the current state ends by itself.';
COMMENT ON COLUMN hookwire.requests.claim IS
    'The last fence, also when its lease is over: its holder may answer until a newer one is drawn.';
COMMENT ON COLUMN hookwire.requests.via IS 'The protocol of the caller: http, sql or zeromq.';
COMMENT ON COLUMN hookwire.requests.caller IS 'Over HTTP the only principal that may ask for the answer.';
COMMENT ON COLUMN hookwire.requests.frame_bytes IS 'The lengths of the frames in body; NULL: one frame.';
COMMENT ON COLUMN hookwire.requests.body IS 'The frames of the request, one after the other.';
COMMENT ON COLUMN hookwire.requests.reply_frame_bytes IS 'The lengths of the frames in reply; NULL: one frame.';
COMMENT ON COLUMN hookwire.requests.id IS 'Unguessable: over ZeroMQ and SQL it is the right to the answer.';
COMMENT ON COLUMN hookwire.requests.expires_at IS 'No worker gets it after this.';

COMMENT ON TABLE hookwire.services IS
    'Services of request-reply: rows of settings. Requests name their service and need no row (RR-04).';
COMMENT ON COLUMN hookwire.services.tries_max IS 'How often a request is leased before it fails.';
COMMENT ON COLUMN hookwire.services.idempotent IS 'False: a request whose worker was lost is given to no other worker.';
COMMENT ON COLUMN hookwire.services.expiry_seconds IS 'How long a request waits for its reply.';
COMMENT ON COLUMN hookwire.services.retention_seconds IS 'How long replies are kept.';
COMMENT ON COLUMN hookwire.services.concurrency_max IS 'How many requests are leased at once; NULL: no limit.';
COMMENT ON COLUMN hookwire.services.without_workers IS 'Whether requests wait or are refused when no worker is present.';
COMMENT ON COLUMN hookwire.services.disabled IS 'New requests are refused; those that wait are still processed.';
COMMENT ON COLUMN hookwire.services.workers_until IS 'A worker has asked for requests and counts as present until then.';

COMMENT ON TABLE hookwire.sinks IS 'The sinks that exist: webhooks, pull, kafka, amqp and jobs.';
COMMENT ON COLUMN hookwire.sinks.configured IS 'Whether a process of this installation carries records to the sink.';

COMMENT ON TABLE hookwire.subscription_secrets IS
    'Signing secrets of subscriptions, encrypted. The newest signs first; an expired one signs no more.';
COMMENT ON COLUMN hookwire.subscription_secrets.number IS 'Rises with each rotation.';
COMMENT ON COLUMN hookwire.subscription_secrets.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.subscription_secrets.sealed IS 'The secret, encrypted.';

COMMENT ON TABLE hookwire.subscriptions IS 'Subscriptions of all protocols, with what they want and how they are delivered to.';
COMMENT ON COLUMN hookwire.subscriptions.protocol IS 'webhook (API), websub, pull, rabbithub or service.';
COMMENT ON COLUMN hookwire.subscriptions.topic IS 'The topic or pattern as it was asked for.';
COMMENT ON COLUMN hookwire.subscriptions.topic_regex IS 'The pattern as a regular expression; NULL: one topic.';
COMMENT ON COLUMN hookwire.subscriptions.topic_url IS 'The URL by which a WebSub subscriber named the topic.';
COMMENT ON COLUMN hookwire.subscriptions.callback IS 'The URL that gets the events; empty for pull.';
COMMENT ON COLUMN hookwire.subscriptions.state IS
    'As it was set: active, disabled, gone, expired, denied or deleted. Health is computed, not stored.';
COMMENT ON COLUMN hookwire.subscriptions.state_reason IS 'Why it is not active any more.';
COMMENT ON COLUMN hookwire.subscriptions.ordered IS 'Whether the events of a key are delivered one after the other.';
COMMENT ON COLUMN hookwire.subscriptions.signature_method IS 'The hash of WebSub''s signature.';
COMMENT ON COLUMN hookwire.subscriptions.retry_schedule_seconds IS 'Pauses between attempts; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.timeout_seconds IS 'The deadline of one attempt; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.lease_until IS
    'The end of a WebSub lease, or of a pull subscription that is not fetched from; NULL: none.';
COMMENT ON COLUMN hookwire.subscriptions.paused_until IS 'Until when a 429 pauses deliveries.';
COMMENT ON COLUMN hookwire.subscriptions.version IS
    'Rises with each change; a worker reads the subscription again when a claim names another version.';
COMMENT ON COLUMN hookwire.subscriptions.identity IS 'SHA-256 of topic and callback: the pair, however its URLs are spelled.';
COMMENT ON COLUMN hookwire.subscriptions.filter IS 'The filter as it was asked for.';
COMMENT ON COLUMN hookwire.subscriptions.filter_path IS 'The filter as the predicate that hookwire.passes evaluates.';
COMMENT ON COLUMN hookwire.subscriptions.lifetime_seconds IS 'Pull: how long it lasts without a fetch.';
COMMENT ON COLUMN hookwire.subscriptions.retry_age_seconds_max IS
    'How old a delivery may grow before it is given up; NULL: the hub''s setting.';
COMMENT ON COLUMN hookwire.subscriptions.on_4xx IS 'Whether a 4xx is retried or final for its delivery.';
COMMENT ON COLUMN hookwire.subscriptions.on_410 IS 'Whether a 410 ends the subscription or counts as any 4xx.';
COMMENT ON COLUMN hookwire.subscriptions.at_most_once IS 'A delivery whose outcome is unknown is never sent again.';
COMMENT ON COLUMN hookwire.subscriptions.on_exhausted IS
    'What an exhausted head of a lane does: park keeps its key waiting, skip goes on.';
COMMENT ON COLUMN hookwire.subscriptions.header_names IS 'The names in headers_sealed, which may be shown.';
COMMENT ON COLUMN hookwire.subscriptions.headers_key_id IS 'The key that sealed headers_sealed.';
COMMENT ON COLUMN hookwire.subscriptions.headers_sealed IS 'Headers of the subscriber''s own, encrypted.';
COMMENT ON COLUMN hookwire.subscriptions.pshb03 IS 'Made by a request of PubSubHubbub 0.3.';
COMMENT ON COLUMN hookwire.subscriptions.permanent IS 'Renewed by the hub before its lease ends (PubSubHubbub 0.3).';
COMMENT ON COLUMN hookwire.subscriptions.verify_token IS 'PubSubHubbub 0.3: the token that is echoed to the callback.';
COMMENT ON COLUMN hookwire.subscriptions.rate_per_second IS 'The rate limit; NULL: none.';
COMMENT ON COLUMN hookwire.subscriptions.rate_burst IS 'How many deliveries may be made at once under the rate limit.';
COMMENT ON COLUMN hookwire.subscriptions.format IS 'How a delivery carries the event.';
COMMENT ON COLUMN hookwire.subscriptions.request_origin IS
    'The origin that the callback consented to be sent to by (CloudEvents).';
COMMENT ON COLUMN hookwire.subscriptions.batch_max IS 'How many events one request may carry; NULL: one.';
COMMENT ON COLUMN hookwire.subscriptions.template IS 'How a chat shows an event.';
COMMENT ON COLUMN hookwire.subscriptions.callback_host IS 'The host of the callback, for limits that count by host.';
COMMENT ON COLUMN hookwire.subscriptions.requester_network IS 'The network that asked for it: an IPv4 address or an IPv6 /64.';
COMMENT ON COLUMN hookwire.subscriptions.service IS
    'The service whose requests the callback gets; NULL for subscriptions to topics.';
COMMENT ON COLUMN hookwire.subscriptions.drops_at_end IS
    'Whether what it is owed at its end is dropped instead of becoming dead letters.';
COMMENT ON COLUMN hookwire.subscriptions.metadata IS 'The subscriber''s own JSON, which is only shown again.';

COMMENT ON TABLE hookwire.task_archive IS 'Finished tasks of kinds that keep a record.';
COMMENT ON COLUMN hookwire.task_archive.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.task_archive.outcome IS 'How it ended.';

COMMENT ON TABLE hookwire.task_kinds IS 'How tasks of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';
COMMENT ON COLUMN hookwire.task_kinds.on_crash IS 'What the cleaner does with a crashed task: retry, compensate or abandon.';
COMMENT ON COLUMN hookwire.task_kinds.compensation_kind IS 'The kind of the task that undoes a crashed one.';
COMMENT ON COLUMN hookwire.task_kinds.notify IS 'How workers are notified: nobody, notify, relay or enqueuer.';
COMMENT ON COLUMN hookwire.task_kinds.lookup_seconds IS
    'Between two looks for a row that a notification named and that is not there yet.';
COMMENT ON COLUMN hookwire.task_kinds.giveup_seconds IS 'After which such a notification is dropped.';
COMMENT ON COLUMN hookwire.task_kinds.cleanup_seconds IS 'After which the cleaner notifies of a task again.';
COMMENT ON COLUMN hookwire.task_kinds.crash_seconds IS 'After which a task that was begun counts as crashed.';
COMMENT ON COLUMN hookwire.task_kinds.age_seconds_max IS 'With attempts_max: dead when both are passed.';
COMMENT ON COLUMN hookwire.task_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';
COMMENT ON COLUMN hookwire.task_kinds.keeps_record IS 'Whether finished tasks go into the archive.';
COMMENT ON COLUMN hookwire.task_kinds.is_unique IS 'Whether enqueueing the same description again finds the same task.';

COMMENT ON TABLE hookwire.task_rows IS 'Live tasks. A task exists if and only if the transaction that enqueued it committed.';
COMMENT ON COLUMN hookwire.task_rows.description IS 'The arguments.';
COMMENT ON COLUMN hookwire.task_rows.start_time IS 'When it was begun; NULL: nobody has begun it.';
COMMENT ON COLUMN hookwire.task_rows.finish_time IS 'When it was finished; then it is archived.';
COMMENT ON COLUMN hookwire.task_rows.seq IS 'The order of enqueueing.';
COMMENT ON COLUMN hookwire.task_rows.due_at IS 'Not to be begun before; NULL: at once.';
COMMENT ON COLUMN hookwire.task_rows.notify_at IS 'When the cleaner notifies of it again; NULL: never.';
COMMENT ON COLUMN hookwire.task_rows.claim IS 'The fence of the worker that has begun it.';
COMMENT ON COLUMN hookwire.task_rows.lease_until IS 'When it counts as crashed.';

COMMENT ON TABLE hookwire.task_workers IS 'Workers of tasks that are present.';
COMMENT ON COLUMN hookwire.task_workers.kinds IS 'The kinds that it works on.';
COMMENT ON COLUMN hookwire.task_workers.slots IS 'How many tasks it runs at once.';
COMMENT ON COLUMN hookwire.task_workers.seen_until IS 'When it counts as crashed unless it is seen again.';
COMMENT ON COLUMN hookwire.task_workers.completed IS 'Tasks that it finished.';
COMMENT ON COLUMN hookwire.task_workers.failed IS 'Tasks that failed there.';

COMMENT ON TABLE hookwire.topics IS 'Topics with their settings. The hub''s own topics need no row.';
COMMENT ON COLUMN hookwire.topics.sinks IS 'The sinks that events of the topic go to; NULL: those of the hub''s settings.';
COMMENT ON COLUMN hookwire.topics.ordered IS 'Whether events of a key keep the order of their commits.';
COMMENT ON COLUMN hookwire.topics.on_refused IS
    'What a record that a broker refuses for good does to its key: hold_key, skip or stop; NULL: as the sink''s setting says.';
COMMENT ON COLUMN hookwire.topics.validator_url IS
    'The URL that is asked about each WebSub subscribe request; NULL: nobody is asked.';
COMMENT ON COLUMN hookwire.topics.moved_to IS
    'The URL at which the topic is published now; requests for it are redirected there.';
COMMENT ON COLUMN hookwire.topics.retention_days IS 'How long events are kept; 0: for ever; NULL: as the hub''s setting says.';
COMMENT ON COLUMN hookwire.topics.version IS 'Rises with each change of the settings; the ETag of the API.';

COMMENT ON TABLE hookwire.upstreams IS 'Foreign topics that another hub delivers here, instead of being fetched.';
COMMENT ON COLUMN hookwire.upstreams.token IS 'The part of the callback''s URL that cannot be guessed.';
COMMENT ON COLUMN hookwire.upstreams.key_id IS 'The key that sealed the secret.';
COMMENT ON COLUMN hookwire.upstreams.sealed IS 'The secret of the subscription there, encrypted.';
COMMENT ON COLUMN hookwire.upstreams.hub_url IS 'The hub that was discovered last.';
COMMENT ON COLUMN hookwire.upstreams.self_url IS 'The topic as the other hub names it.';
COMMENT ON COLUMN hookwire.upstreams.due_at IS 'When the topic is discovered and its hub is asked again; NULL: not by itself.';
COMMENT ON COLUMN hookwire.upstreams.claimed_until IS 'Until when one process makes it.';
COMMENT ON COLUMN hookwire.upstreams.claims IS 'Claims so far; the number of the latest is its fence.';
COMMENT ON COLUMN hookwire.upstreams.failures IS 'Failed requests in a row.';
COMMENT ON COLUMN hookwire.upstreams.url IS 'Where the topic is discovered.';

COMMENT ON TABLE hookwire.verification_buckets IS
    'Tokens of verification requests: an empty host is a tenant''s bucket, an empty tenant a host''s.';
COMMENT ON COLUMN hookwire.verification_buckets.tokens IS 'As of refilled_at.';

COMMENT ON VIEW hookwire.all_jobs IS 'Live and ended jobs in one shape.';
COMMENT ON VIEW hookwire.job_statistics IS 'Jobs by kind and state, with their ages.';
COMMENT ON VIEW hookwire.job_trail IS 'What happened to each job, from its audit records.';
COMMENT ON VIEW hookwire.open_deliveries IS
    'Open deliveries with an explicit state: waiting (from available_at on), claimed (until lease_until), blocked or parked.';
COMMENT ON VIEW hookwire.receivers IS
    'Subscriptions with all that decides when they are sent to next: lease, pause, breaker, rate limit, failures.';
COMMENT ON VIEW hookwire.tasks IS 'Live tasks in the columns of the original article; INSERT enqueues.';
COMMENT ON COLUMN hookwire.open_deliveries.state IS
    'waiting, claimed, blocked (behind an earlier event of its lane) or parked (waits for a decision).';
COMMENT ON COLUMN hookwire.open_deliveries.available_at IS 'Waiting: no attempt before; NULL in other states.';
COMMENT ON COLUMN hookwire.open_deliveries.lease_until IS 'Claimed: when another worker may claim it; NULL in other states.';
