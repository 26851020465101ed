-- Each function says what it is for, in the catalogue too; `make schema` prints it beside the function's text.

COMMENT ON FUNCTION hookwire.accept IS
    'Accept messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
COMMENT ON FUNCTION hookwire.accept_claim IS
'Accept those of these messages that the claim still holds; return their ids. Rows are locked in the order of ids: the
plans of the callers use no bitmap.';
COMMENT ON FUNCTION hookwire.accept_copies IS
'Accept everything up to and including the last of these messages: the position moves there and the lease ends. False:
the claim is stale.';
COMMENT ON FUNCTION hookwire.accept_held IS
'Accept each of these messages that its claim still holds: it leaves the table. It goes into the archive if its queue
keeps history. Claim by claim, so that the DELETE itself finds the held messages: a lock before it would write each
row once more.';
COMMENT ON FUNCTION hookwire.act_on_due_job IS
    'Act on the due date of an assigned job.';
COMMENT ON FUNCTION hookwire.add_callbacks IS
'Enqueue accepted callbacks, in portions that add_jobs takes. Their kinds have rows, so that no later setting refuses
them: otherwise the job could not change its state.';
COMMENT ON FUNCTION hookwire.add_job IS
    'Add one job. If (kind, uniq) is live or was recently, `on_conflict` of the draft decides.';
COMMENT ON FUNCTION hookwire.add_jobs IS
'Enqueue jobs in the caller''s transaction: each is made, merged, replaced or skipped. A draft is what POST /jobs
takes. A draft whose (kind, uniq) is live attaches to that job, which cannot end before this transaction. A job that
is due at once keeps no date.';
COMMENT ON FUNCTION hookwire.admit_job_rule IS
'Refuse a rule as a job would be refused. Its kinds have rows from now on, so that no setting refuses its jobs later.';
COMMENT ON FUNCTION hookwire.adopt_transaction_ids IS
'Give low transaction ids to positions of consumers that are ahead of this server. A dump that is restored elsewhere
brings transaction ids of another server. Until this server has counted up to them, consumers of copies would read
nothing. They would pass over messages that are submitted meanwhile, and the ledger would wait.

The positions keep their order. Messages between two positions get the id of the later one. Return whether anything
was changed: nothing is where all ids are of the past.';
COMMENT ON FUNCTION hookwire.announce_jobs IS
'Announce jobs that have just changed their state: publish the events of their kind, and enqueue the callbacks of their
requests. A body is small: a result of more than 64 KiB is left to GET /jobs/{id}. Ended jobs are passed as they were,
with their results.';
COMMENT ON FUNCTION hookwire.announce_tasks IS
    'Notify of tasks that were inserted, if they are due.';
COMMENT ON FUNCTION hookwire.answer_bytes_max IS
    'Return the largest number of bytes that one claim returns.';
COMMENT ON FUNCTION hookwire.answer_of IS
'Return the state of a request, with its reply once it is answered. An unknown, closed or forgotten request has no row.';
COMMENT ON FUNCTION hookwire.approve_job IS
    'Approve a job that waits for its review: it ends.';
COMMENT ON FUNCTION hookwire.assert_origin IS
'Return true, or raise: the ids are of another origin, or the sequence stands below an id that was passed as done. A
caller that remembers nothing yet has no origin.';
COMMENT ON FUNCTION hookwire.assign_job IS
    'Assign a job of the pool: compare-and-set, so an assigned job is refused. `on_due` acts at the due date.';
COMMENT ON FUNCTION hookwire.available_kinds IS
    'Return the kinds of a queue that have available jobs for workers.';
COMMENT ON FUNCTION hookwire.await_direct_commits IS
'A transaction that activates or changes a subscription waits, at its COMMIT, for the direct commits that read the
subscriptions before. Later commits see the change, or take the outbox. The transaction takes one of eight locks, so
that several can be committed at once. A direct commit takes all of them, shared. At COMMIT a transaction waits for no
other lock any more, so this lock takes part in no deadlock.';
COMMENT ON FUNCTION hookwire.browse IS
    'Return available messages without a claim, oldest first.';
COMMENT ON FUNCTION hookwire.bury_tasks IS
    'Give up these tasks: they leave the table, and operators are notified in the same statement.';
COMMENT ON FUNCTION hookwire.cancel_job IS
'Cancel a job. If it runs, it is asked to stop: its worker learns of it by its next heartbeat, and after
`grace_seconds` its claim ends. Returns the state.';
COMMENT ON FUNCTION hookwire.check_contents IS
    'Refuse contents that HTTP could not carry.';
COMMENT ON FUNCTION hookwire.check_drafts IS
'Refuse records that no sink could carry, so that poison does not enter. The hub''s own topics need no row, also where
a first publish creates no topic.';
COMMENT ON FUNCTION hookwire.check_filter IS
'Refuse a filter of a receiver that is not of this form: {"type", "key", "headers": {...}, "priority_min",
"age_seconds_min"}.';
COMMENT ON FUNCTION hookwire.check_headers IS
'Refuse headers that a foreign transaction may not send; raise invalid_parameter_value. A publisher cannot announce a
coding of the body: subscribers get the very bytes that were published.';
COMMENT ON FUNCTION hookwire.check_job_draft IS
    'Refuse a draft of a job that the tables or workers could not carry.';
COMMENT ON FUNCTION hookwire.check_job_result IS
    'Refuse a result that is too large, or nested too deep.';
COMMENT ON FUNCTION hookwire.check_messages IS
    'Refuse messages that HTTP and workers could not carry: contents, types, headers, keys.';
COMMENT ON FUNCTION hookwire.check_queue_name IS
    'Refuse a name that no queue can have.';
COMMENT ON FUNCTION hookwire.check_reviewer IS
    'Raise if this actor may not review the job: its review is a second person''s duty.';
COMMENT ON FUNCTION hookwire.check_service_name IS
    'Refuse names that HTTP, SQL and events may not use. The broker of ZeroMQ answers the reserved names itself.';
COMMENT ON FUNCTION hookwire.check_services_open IS
    'Raise if one of these services takes no request now: 42704 unknown, HW002 disabled or without a worker.';
COMMENT ON FUNCTION hookwire.check_writable IS
'Write one row and half a mebibyte of temporary file: a read-only server and a full disk answer every question. The row
is changed in place; the spilled sort takes new blocks of the disk. Raise the server''s error when it cannot write.';
COMMENT ON FUNCTION hookwire.claim_jobs IS
'Claim up to `most` jobs of these kinds (NULL: all) for a worker, by priority and age. The attempt counts from here.';
COMMENT ON FUNCTION hookwire.claim_requests IS
    'Lease requests as `lease_requests` does, for workers in SQL.';
COMMENT ON FUNCTION hookwire.claim_task IS
'Claim a task by its id, from a notification. The outcome is one of these:
  claimed    by this call
  taken      begun by another worker, or of another kind than `kinds`
  waiting    for its retry
  absent     its transaction has not committed, or it is done

Another claim takes milliseconds; the call waits for it, at most a second.';
COMMENT ON FUNCTION hookwire.claim_tasks IS
'Claim up to `most` waiting tasks of these kinds, the oldest of each first. Rows that another claim locks are skipped.';
COMMENT ON FUNCTION hookwire.clean_tasks IS
'Make one bounded pass. Tasks that no worker has begun are notified again, with damping. Retries that are due are
freed, finished rows are archived, and crashed tasks are recovered. One pass runs at a time; two would do no harm.';
COMMENT ON FUNCTION hookwire.close_request IS
    'Close a request: it is executed no more, and its reply is gone. An unknown request counts as closed.';
COMMENT ON FUNCTION hookwire.complete_job IS
'Complete one job: HW001 if the claim is stale. In the caller''s transaction, so that its own rows commit with it.';
COMMENT ON FUNCTION hookwire.complete_jobs IS
'Complete the jobs that their claims still hold: they end, or wait for their review. Return their ids. `extras` holds
for each {"events": [{"topic", "payload", "key"?, "content_type"?, "headers"?}], "jobs": [draft]}: published and
enqueued in the same transaction, for held jobs alone.';
COMMENT ON FUNCTION hookwire.complete_task IS
'Complete a row that an application inserts itself. Its kind is that of the row, or its description if that is a word,
or `default`.';
COMMENT ON FUNCTION hookwire.content_hash IS
'Return the hash of an event as Kafka carries it. It is the first 8 bytes of a SHA-256: of the event''s members, a
separator between each two, then of its payload. The pipeline computes the same from a record
(pipeline/audit/content.py). An audit of the lake proves by it that the records hold the contents, and not only that
they are there.';
COMMENT ON FUNCTION hookwire.decline_job IS
    'Decline a job: it is discarded.';
COMMENT ON FUNCTION hookwire.delay_job IS
'Delay a job until a date. Then it returns to its assignee, or to the pool. A far date is given as local time and zone.';
COMMENT ON FUNCTION hookwire.direct_audience IS
'The drafts that may take the direct path, with their audience. A draft that is not returned takes the outbox.

One statement, so that all conditions hold at one moment: an event leaves the outbox in the statement that makes its
deliveries. The caller holds the stripes of the keys, so every earlier event of a key is committed. It also keeps
subscriptions from being activated or changed until COMMIT. An event in slices keeps its outbox row, so its cursor is
not looked for. A snapshot older than the locks would show none of this: hence only READ COMMITTED.';
COMMENT ON FUNCTION hookwire.end_jobs IS
'End jobs: they leave the table, and enter the archive if their kind keeps them. With claims, only jobs that are still
held by them are ended. Return the ids of the ended jobs. Rows are locked in the order of ids. So the plan uses
neither a bitmap nor a scan of the table: an index returns the ids of an array in their order.';
COMMENT ON FUNCTION hookwire.enqueue IS
'Enqueue one job in the caller''s transaction. Return its id, or that of the live job with the same uniq. `uniq` ''-''
stands for the args.';
COMMENT ON FUNCTION hookwire.enqueue_events IS
    'Enqueue one job for each of these events, in the transaction that takes them out of the outbox. Return how many.';
COMMENT ON FUNCTION hookwire.enqueue_task IS
'Enqueue a task in the caller''s transaction. Return its id. The same kind and arguments are the same task while it is
live, unless the kind or the call says otherwise.';
COMMENT ON FUNCTION hookwire.ensure_built_in_exchanges IS
    'Make the exchanges that every virtual host of a broker has.';
COMMENT ON FUNCTION hookwire.ensure_partitions IS
'Make the partitions of events and attempts for the ids of the next 30 days at the current rate, at least `spare` of
them. By LIKE and ATTACH, which inserts of other sessions do not wait for. Return how many were made.';
COMMENT ON FUNCTION hookwire.event_digest IS
'The members that make two CloudEvents of one source and id the same event: ordering key, content type, attributes,
data. `time` and the tracing attributes may differ when a publisher builds its event anew to repeat it.';
COMMENT ON FUNCTION hookwire.event_job_args IS
'Return the arguments of an event''s job. The content is `data` where it is JSON, else `payload` where it is text, else
`payload_base64`. Content that does not fit into arguments is left out, and GET /events/{id} has it.';
COMMENT ON FUNCTION hookwire.event_job_content IS
    'Return JSON content; as text where it is beyond the limits of arguments, in which it lies one level deeper.';
COMMENT ON FUNCTION hookwire.extend IS
    'Extend the leases of messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
COMMENT ON FUNCTION hookwire.extend_held IS
    'Extend the leases of those messages that their claims still hold. Return their ids.';
COMMENT ON FUNCTION hookwire.extend_jobs IS
'Extend leases: the heartbeat. Return the jobs that are still held, and whether each is to be cancelled. The lease
never passes the run limit or the deadline, so a heartbeat hides no stuck handler.';
COMMENT ON FUNCTION hookwire.extend_requests IS
    'Extend the leases of those requests that their claims still hold, from now on.';
COMMENT ON FUNCTION hookwire.fail_job IS
'Record that a job failed. `dead`: no further attempt. Return retryable, available (to people) or discarded. A job that
was to be cancelled is cancelled.';
COMMENT ON FUNCTION hookwire.fail_task IS
    'Record that a task failed: it is tried again after its backoff, or is dead. Return retry, dead or stale.';
COMMENT ON FUNCTION hookwire.filter_document IS
    'Return the document that filters look at.';
COMMENT ON FUNCTION hookwire.finish_job IS
    'Finish a job of its assignee: it ends, or waits for its review if its kind needs one.';
COMMENT ON FUNCTION hookwire.finish_tasks IS
    'Finish tasks: the rows leave the table. They go into the archive if their kind keeps a record.';
COMMENT ON FUNCTION hookwire.fire_schedule IS
'Fire a tick of a schedule: the jobs and the next moment commit together, and only if no other scheduler was here.';
COMMENT ON FUNCTION hookwire.forget_requests IS
    'Forget requests and their replies. The archive keeps a row of each. Return how many there were.';
COMMENT ON FUNCTION hookwire.frames_body IS
'Return several frames as one body, as HTTP and SQL see them: {"frames": ["<base64>", ...]}. In plpgsql, which keeps
its plan: a function in SQL is planned at each call, and most bodies are one frame.';
COMMENT ON FUNCTION hookwire.frames_type IS
    'Return the content type of a body, which several frames replace by one of their own.';
COMMENT ON FUNCTION hookwire.graduate IS
'Give a queue a table of its own, messages_<number>, a child of hookwire.messages. Every statement still sees both, in
the order of ids, so nothing is lost, doubled or re-ordered meanwhile. Its owner adds columns that link to domain
rows, such as: order_id bigint GENERATED ALWAYS AS ((headers->>''order-id'')::bigint) STORED REFERENCES shop.orders.';
COMMENT ON FUNCTION hookwire.graduate_batch IS
'Move one batch of the messages that are still in the general table. Return how many moved. Claimed messages stay until
they are settled.';
COMMENT ON FUNCTION hookwire.groups_of IS
    'Return the number of groups of a sink in a layout.';
COMMENT ON FUNCTION hookwire.has_workers IS
    'Return whether a worker is present: it has asked recently, holds a request, or is a callback.';
COMMENT ON FUNCTION hookwire.held_jobs IS
'Lock those of these (id, claim) pairs that the claim still holds. Return their ids. The state is checked outside of
the lookup by id. Inside, the planner would choose the partial index of all running jobs.';
COMMENT ON FUNCTION hookwire.held_messages IS
'Lock those of these (id, claim) pairs that the claim still holds, by claim and id. In plpgsql, which keeps the plan: a
function in SQL is planned at each call.';
COMMENT ON FUNCTION hookwire.held_tasks IS
    'Lock those of these (id, claim) pairs that the claim still holds.';
COMMENT ON FUNCTION hookwire.is_person IS
    'Return whether an actor or an assignee names a person.';
COMMENT ON FUNCTION hookwire.is_queue_name IS
    'Return whether a queue, or a name in a queue, can have this name.';
COMMENT ON FUNCTION hookwire.is_readable_json IS
    'Return whether JSON has at most so many levels, and numbers of at most 1,000 digits.';
COMMENT ON FUNCTION hookwire.is_told_result IS
'Return whether a result is small and flat enough for the arguments of a callback, one level deeper. A text of 128
bytes has no 64 levels.';
COMMENT ON FUNCTION hookwire.job_backoff_seconds IS
    'Return how long a job waits before its next attempt.';
COMMENT ON FUNCTION hookwire.job_due IS
    'Return when a job is due, by its draft. Refuse dates after those that clients in all languages can read.';
COMMENT ON FUNCTION hookwire.job_is_for_people IS
'Return whether a job goes to people, by the automation of its kind. The share is drawn from the id, so it can be
judged again.';
COMMENT ON FUNCTION hookwire.job_keys IS
    'Return the next keys that have available jobs, by steps through the index.';
COMMENT ON FUNCTION hookwire.job_policy IS
    'Return the settings of a kind of job. A kind without a row has those of the kind `*`.';
COMMENT ON FUNCTION hookwire.jobs_within IS
'Return how many of these jobs, in this order, fit, and the bytes of their contents. JSON has to be read to be
measured, so nothing is read behind the limit.';
COMMENT ON FUNCTION hookwire.json_of IS
    'Return a payload as JSON, NULL where it is none; never an error.';
COMMENT ON FUNCTION hookwire.keep_jobs IS
'Make one bounded pass over dates that have come, deadlines that have passed, and claims whose lease or run limit is
over. Any number of passes may run at once: rows that another pass holds are skipped.';
COMMENT ON FUNCTION hookwire.key_allowances IS
'Return how many jobs of each of these keys may begin now, `room` at most. Running jobs and the keys that are asked for
are counted by one hash, so that the price grows with their number only.';
COMMENT ON FUNCTION hookwire.key_digest IS
'The documented hash of (topic, key): SHA-256 of topic, a zero byte, key (vectors: openapi/key-hash-vectors.json).';
COMMENT ON FUNCTION hookwire.lane_digest IS
'The input of stripe and shard: a topic''s key, or a key in all topics. A change of the order scope replaces this
function. A transaction never sees an old version of a function, as it would see an old row.';
COMMENT ON FUNCTION hookwire.last_batch_no IS
'Return the last number of a group, 0 where none was drawn. VOLATILE: it sees rows that were committed while it waited.';
COMMENT ON FUNCTION hookwire.lease_requests IS
'Lease up to `most` waiting requests of a service, the oldest first, each under a fence of its own. Frames stay as they
are. The worker counts as present for `presence_seconds`.';
COMMENT ON FUNCTION hookwire.ledger_hash IS
    'Return the hash whose sums, modulo 2^64, are the checksums of the ledger.';
COMMENT ON FUNCTION hookwire.ledger_sum IS
    'Return a sum of hashes modulo 2^64, as a signed number.';
COMMENT ON FUNCTION hookwire.lock_job_kind IS
'Lock a limited kind, so that its counts are exact. Claims take milliseconds; false: the lock was not free in half a
second.';
COMMENT ON FUNCTION hookwire.locked_job IS
'Return the job, locked, if it is in one of these states; else raise 42704 or HW002. Of two people that click at once
the second sees the change of the first.';
COMMENT ON FUNCTION hookwire.message_count IS
    'Return how many messages of a queue are available.';
COMMENT ON FUNCTION hookwire.next_in_lane IS
'The delivery that waits behind another one of its lane. STABLE and one SELECT, so that PostgreSQL inlines it into the
statements that call it: they are planned as if it stood there.';
COMMENT ON FUNCTION hookwire.note_batch_no IS
    'A term begins with the last number on its row. A new layout begins with a number of its own.';
COMMENT ON FUNCTION hookwire.note_former_audience IS
'No event up to the last id drawn was accepted after this change. An event that is committed later is judged by it,
too.';
COMMENT ON FUNCTION hookwire.note_job IS
    'Record in the audit trail what a person did with a job.';
COMMENT ON FUNCTION hookwire.notify_tasks IS
'Notify of these tasks, as each kind says. It runs in the transaction that makes or frees them; the relay sends after
COMMIT. The topic hookwire.tasks takes the bare id to AMQP''s default exchange, for the queue task_queue. A relay with
AMQP makes that topic at its start. Without such a relay the first notification makes it.';
COMMENT ON FUNCTION hookwire.notify_way IS
'Return how the cleaner notifies of tasks whose enqueuer notifies: by the relay where AMQP is configured, else by
NOTIFY.';
COMMENT ON FUNCTION hookwire.origin IS
'Return the origin of the ids that a process remembers: the run of the server, and the file of the sequence. A standby,
a restored server and a restarted server are other runs. A new database, a schema that was restored in place and a
sequence that was restarted have another file.';
COMMENT ON FUNCTION hookwire.parse_frames IS
'Read frames from a body of the content type of `frames_body`; every other body is one frame. A single frame has no
`frame_bytes`. Frames that are nested too deep for the server are invalid.';
COMMENT ON FUNCTION hookwire.passes IS
    'Return whether an event passes a filter; never an error, never unknown.';
COMMENT ON FUNCTION hookwire.pause_job_kind IS
    'Pause a kind, so that none of its jobs is claimed, or resume it.';
COMMENT ON FUNCTION hookwire.pick_at_head IS
    'Return the first `room` jobs in order of rank that may begin; NULL where the head of the queue cannot tell.';
COMMENT ON FUNCTION hookwire.pick_by_key IS
'Pick jobs by their keys, regardless of the jobs at the head of the queue. It looks at 500 keys, beginning at a random
one where there are more. Within each key it looks at as many jobs as the key may run: a blocked key costs one step,
however long its queue.';
COMMENT ON FUNCTION hookwire.pick_filtered IS
'Find messages by type or key through an index. The rest of the filter is judged on the first 1,000 that this leaves.';
COMMENT ON FUNCTION hookwire.pick_limited_jobs IS
    'Lock up to `most` jobs of a limited kind, under its lock.';
COMMENT ON FUNCTION hookwire.progress_job IS
'Store the progress of a job, for GET /jobs/{id} and for events of its kind. Return whether it is to be cancelled.';
COMMENT ON FUNCTION hookwire.publish(text, bytea, text, text, jsonb) IS
'Publish in any transaction. Wait for the key''s stripe for as long as the caller''s lock_timeout allows, and hold it
until the transaction ends. Return the event id. hookwire.* is the hub''s own namespace, so nothing is published
there. A payload that is NULL is a tombstone: a null value on Kafka, an empty body elsewhere.';
COMMENT ON FUNCTION hookwire.publish(text, jsonb, text, text, jsonb) IS
    'Publish a JSON value, as `publish` of bytes does.';
COMMENT ON FUNCTION hookwire.publish(text, text, text, text, jsonb) IS
    'Publish a text, as `publish` of bytes does.';
COMMENT ON FUNCTION hookwire.publish_all IS
    'Publish the events that a job passes at its completion.';
COMMENT ON FUNCTION hookwire.publish_batch IS
'Store drafts and the outbox rows for them: the only place that knows stripes, shards and routing.

A unit is a set of drafts that is stored whole or not at all (one request). One row comes back for each draft:
  stored      with its id
  busy        an open transaction holds a stripe of its unit (only when NOT wait), or one of its idempotency keys
  replayed    its idempotency key was used before on its topic, with the same digest: the earlier id
  conflict    its idempotency key was used before on its topic, with another digest

Of a busy unit nothing was stored; in_flight tells that the cause is an idempotency key.

The digest is the fingerprint. Where that is NULL, or the digest of the key itself, it is made of the event: the key
is a CloudEvent''s identity.

A unit that conflicts in one part and was stored in another raises unique_violation. Everything is rolled back then,
and the caller finds the unit by halving.

Each step of this order is needed by a rule:
  1. Draw the transaction id, and read the topics once.
  2. Take the stripes, before any id is drawn; by try-lock in shared commits.
  3. Take the idempotency keys by try-lock, sorted.
  4. Choose the drafts of the direct path.
  5. Draw ids, claim the keys, and store the drafts that won.
  6. Read the others in a second statement.

Topics below hookwire.job and hookwire.service go to webhooks and pull only, unless their settings name other sinks.
Only a topic''s own settings name the sink jobs.';
COMMENT ON FUNCTION hookwire.put_job_kind IS
'Set how jobs of a kind are treated. Settings that are not named are those of all kinds. Waiting jobs follow at once:
under another automation they go to people or to machines, with their ids and history. Of two settings of a kind at
once the later one holds, and a paused kind stays paused.';
COMMENT ON FUNCTION hookwire.queue_settings IS
    'Return the settings of a queue. A queue without a row has the defaults, unless queues need a row (42704).';
COMMENT ON FUNCTION hookwire.reap_messages IS
'End one bounded batch of leases that are over, oldest first, and of delays. A message that was delivered as often as
its queue allows becomes a dead letter.';
COMMENT ON FUNCTION hookwire.reap_requests IS
    'Make one bounded pass over requests whose deadline has come, the longest due first.';
COMMENT ON FUNCTION hookwire.receive IS
'Claim up to `count` available messages in the order of their ids, under one fresh fence. The index is read from
`after_id` on. A receiver that remembers it does not walk over messages that others have taken, while an old snapshot
keeps their dead entries. It must ask from 0 again and again, because lower ids may still be committed or returned.';
COMMENT ON FUNCTION hookwire.receive_copies IS
'Return the next messages of a durable consumer, under a lease of the whole batch. While one reader holds it, another
gets nothing. Only messages below the oldest running transaction are read.';
COMMENT ON FUNCTION hookwire.recover_task IS
    'Recover one crashed task by the policy of its kind. Return the action, which is also in the audit trail.';
COMMENT ON FUNCTION hookwire.refuse_stale IS
    'Raise HW001 if one of the wanted messages is not settled. Return how many are.';
COMMENT ON FUNCTION hookwire.refuse_stale_job IS
    'Raise HW001: the claim holds the job no more.';
COMMENT ON FUNCTION hookwire.register_consumer IS
'Register a durable consumer; false: the name is taken. It reads messages that commit from now on and, from `since` on,
those that the log still has. The exclusive lock waits for open submissions to this queue: an id that is drawn after
it belongs to a message that commits later. No transaction below the snapshot''s xmin submits again.';
COMMENT ON FUNCTION hookwire.reject IS
    'Give back messages of one claim, all or nothing. HW001: the claim holds one of them no more.';
COMMENT ON FUNCTION hookwire.reject_held IS
'Give back each of these messages that its claim still holds: to its old place, or after a delay. It becomes a dead
letter where `dead` says so, or once it was delivered as often as its queue allows. `counts` false: the delivery does
not count.';
COMMENT ON FUNCTION hookwire.release_copies IS
    'Give the batch back: the lease ends, and the same messages come again.';
COMMENT ON FUNCTION hookwire.release_jobs IS
'Give back jobs that their claims still hold, without the cost of an attempt. Return their ids. A job that was to be
cancelled is. A release counts, unless its reason is ''stop''; beyond `releases_max` in a row the attempt fails.';
COMMENT ON FUNCTION hookwire.release_limit_text IS
    'Return the error that is stored when work was given back too often.';
COMMENT ON FUNCTION hookwire.release_request IS
'Give a request back for another try after the delay. With a reason the try has failed, and the last try ends the
request. A request of Titanic is tried once a minute from there on.';
COMMENT ON FUNCTION hookwire.release_tasks IS
'Give back tasks that their claims still hold, without the cost of an attempt. Return their ids. A release counts,
unless its reason is ''stop''; beyond `releases_max` in a row the attempt fails.';
COMMENT ON FUNCTION hookwire.releases_max IS
    'Return how often in a row work may be given back without the cost of an attempt.';
COMMENT ON FUNCTION hookwire.reply(text, bigint, bytea, text) IS
'Answer a request in the worker''s transaction, so that its effect and the reply are one. HW001: another worker holds
or answered the request, or it is closed.';
COMMENT ON FUNCTION hookwire.reply(text, bigint, jsonb, text) IS
    'Answer with a JSON value, as `reply` with bytes does.';
COMMENT ON FUNCTION hookwire.reply(text, bigint, text, text) IS
    'Answer with a text, as `reply` with bytes does.';
COMMENT ON FUNCTION hookwire.reply_by IS
    'Store one reply, as HTTP and SQL write it.';
COMMENT ON FUNCTION hookwire.request(text, bytea, text, text, text, double precision) IS
'Ask a service in the caller''s transaction: sent when it commits, never when it rolls back. Return the id, 32
hexadecimal digits. 22023 bad argument, 42704 unknown service, HW002 disabled or without a worker, HW003 too large,
23505 the number was used for another request.';
COMMENT ON FUNCTION hookwire.request(text, jsonb, text, text, text, double precision) IS
    'Ask with a JSON value, as `request` with bytes does.';
COMMENT ON FUNCTION hookwire.request(text, text, text, text, text, double precision) IS
    'Ask with a text, as `request` with bytes does.';
COMMENT ON FUNCTION hookwire.request_by IS
    'Store one request, as HTTP and SQL make it.';
COMMENT ON FUNCTION hookwire.request_id IS
    'Read an id as callers write it, in upper or lower case; NULL for any other text.';
COMMENT ON FUNCTION hookwire.resume_job IS
    'Resume the job that waits for this token, with an answer. Return its id.';
COMMENT ON FUNCTION hookwire.retry_job IS
'Run a job now that waits for a date or for its next attempt. A discarded or cancelled job runs again under its old id.';
COMMENT ON FUNCTION hookwire.running_job IS
    'Return the job, locked, if this claim still holds it; else raise HW001.';
COMMENT ON FUNCTION hookwire.scope_of IS
    'Return the order scope of a layout: a key in all topics, or the key of one topic.';
COMMENT ON FUNCTION hookwire.send_back_job IS
    'Send a job back to the person who did it, or to people where a machine did it.';
COMMENT ON FUNCTION hookwire.service_settings IS
    'Return the settings of a service. A service without a row has the defaults.';
COMMENT ON FUNCTION hookwire.settle_failure IS
'Settle the failure of a locked running job: it goes to people, waits for its next attempt, or is discarded. Return its
new state.';
COMMENT ON FUNCTION hookwire.settle_requests IS
'Store each reply that its claim still holds, and publish its event in the same statement. The first reply wins:
  stored     by this claim, also for a repetition
  stale      another claim holds or answered the request
  unknown    the request is closed or over

It goes item by item, so that each row is found by its key, regardless of the planner''s view of the arrays.';
COMMENT ON FUNCTION hookwire.shard_of IS
    'Return the virtual shard of a digest, 0 to 63: the relay''s share of the key space.';
COMMENT ON FUNCTION hookwire.snooze_job IS
'Run a job later, without the cost of an attempt. With a token it is parked until `resume_job`, at most so long. A job
that was to be cancelled is cancelled: a pushed job has no heartbeat that would tell its worker. A token that another
job waits for is refused.';
COMMENT ON FUNCTION hookwire.stash_row IS
    'Publish a row that is inserted into the view `stash`.';
COMMENT ON FUNCTION hookwire.store_requests IS
'Store requests in the caller''s transaction. Return their ids in the order of the bodies. `repeated`: there is a
request of this client and number, and nothing was stored. 23505: it had other contents. NULL for an array stands for
its default in each place. An expiry NULL is that of the service, ''Infinity'' never.';
COMMENT ON FUNCTION hookwire.stripe_of IS
    'Return the stripe of a digest, 0 to 1,023: the locks that make commit order id order within a key.';
COMMENT ON FUNCTION hookwire.submit(text, bytea, text, jsonb, text, text, integer, double precision) IS
    'Submit one message in the caller''s transaction. Return its id.';
COMMENT ON FUNCTION hookwire.submit(text, jsonb, text, jsonb, text, text, integer, double precision) IS
    'Submit one JSON value, as `submit` of bytes does.';
COMMENT ON FUNCTION hookwire.submit(text, text, text, jsonb, text, text, integer, double precision) IS
    'Submit one text, as `submit` of bytes does.';
COMMENT ON FUNCTION hookwire.submit_batch IS
'Submit messages in the caller''s transaction. Return their ids in the order of the payloads. NULL for an array stands
for its default in each place. The shared lock lets `register_consumer` wait for open submissions.';
COMMENT ON FUNCTION hookwire.take_copies IS
    'Return messages as `receive_copies` does, up to so many bytes.';
COMMENT ON FUNCTION hookwire.take_jobs IS
    'Claim jobs as `claim_jobs` does, up to so many bytes.';
COMMENT ON FUNCTION hookwire.take_messages IS
    'Claim messages as `receive` does, up to so many bytes.';
COMMENT ON FUNCTION hookwire.task_backoff_seconds IS
'Return the backoff. It doubles `doublings_max` times, then grows by the last step, then is flat (App Engine''s
fields).';
COMMENT ON FUNCTION hookwire.task_is_worn IS
'Return whether a task is given up after so many attempts at this age. Where both limits are set, both have to be
passed.';
COMMENT ON FUNCTION hookwire.task_policy IS
    'Return the settings of a kind of task. A kind without a row has those of the kind `*`.';
COMMENT ON FUNCTION hookwire.tell_operators IS
    'Publish notices for operators on the topic hookwire.operator, if a subscription asks for the hub''s own topics.';
COMMENT ON FUNCTION hookwire.unassign_job IS
    'Return a job to the pool. It stays with people, unless its kind is automatic.';
COMMENT ON FUNCTION hookwire.waiting_kinds IS
    'Return the kinds that have waiting tasks, by steps through the index.';

COMMENT ON FUNCTION hookwire.why_no_result IS
    'Say why a value cannot be stored as a job''s result; NULL: it can be.';
COMMENT ON FUNCTION hookwire.cut_result IS
    'Return the beginning of a result''s text, which is stored instead of a result that cannot be stored.';
COMMENT ON FUNCTION hookwire.is_bounded_time IS
    'Tell whether a time is in the years 1 to 9999.';
COMMENT ON FUNCTION hookwire.is_quiet IS
    'Tell whether an active upstream has sent nothing for twice its longest gap, and for an hour or more.';
COMMENT ON FUNCTION hookwire.ids_left IS
    'Return how many ids fit into the partitions that exist; 0 where the next id has none.';
COMMENT ON FUNCTION hookwire.ids_per_day IS
    'Return the rate by which partitions are made ahead. Ids that were skipped do not count.';
COMMENT ON FUNCTION hookwire.lock_sequence IS
    'Lock a sequence against every session that draws from it, and return its last number.';
COMMENT ON FUNCTION hookwire.mark_numbers IS
    'Keep the last number of each sequence, which no later row may have again.';
COMMENT ON FUNCTION hookwire.numbers IS
'Return each sequence, its last number, and the greatest number that is in use or was used. NULL: there is no rule. A
sequence that never drew a number has the value 1.';
COMMENT ON FUNCTION hookwire.set_numbers_forward IS
'Set sequences forward that are behind, before numbers are drawn at a server that names itself `seen`. Where numbers were
drawn elsewhere last, set all of them forward by `margin`. Return the sequences that were set.';
