-- What all migrations together make. Written by `make schema`, never by hand.

CREATE SCHEMA hookwire;

CREATE TYPE hookwire.direct_delivery AS (
	n integer,
	subscription_id bigint,
	version bigint,
	lease_seconds double precision,
	lane text
);

CREATE TYPE hookwire.direct_terms AS (
	low bigint,
	origin uuid,
	timeout_seconds double precision,
	lease_margin_seconds double precision,
	deliveries_max integer,
	patterns_max integer
);

CREATE TABLE hookwire.jobs (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    seq bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    for_people boolean DEFAULT false NOT NULL,
    args jsonb NOT NULL,
    key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    uniq text COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    rank_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone,
    due_local timestamp without time zone,
    due_zone text,
    on_due text,
    deadline_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    claim bigint,
    worker text,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    run_until timestamp with time zone,
    is_cancelled boolean DEFAULT false NOT NULL,
    assignee text COLLATE pg_catalog."C",
    performer text COLLATE pg_catalog."C",
    number integer DEFAULT 0 NOT NULL,
    progress_done bigint,
    progress_total bigint,
    progress_note text,
    token text,
    resumed jsonb,
    result jsonb,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    created_by text,
    created_at timestamp with time zone NOT NULL,
    releases smallint DEFAULT 0 NOT NULL,
    CONSTRAINT jobs_on_due_check CHECK ((on_due = ANY (ARRAY['remind'::text, 'escalate'::text, 'unassign'::text]))),
    CONSTRAINT jobs_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'available'::text, 'assigned'::text, 'running'::text, 'review'::text, 'retryable'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.jobs IS 'Live jobs, for people and machines. Ended jobs leave the table in the statement that ends them.';

COMMENT ON COLUMN hookwire.jobs.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.jobs.state IS 'scheduled, available, assigned, running, review or retryable.';

COMMENT ON COLUMN hookwire.jobs.for_people IS 'Whether a person does it.';

COMMENT ON COLUMN hookwire.jobs.args IS 'The arguments.';

COMMENT ON COLUMN hookwire.jobs.key IS 'By which limits count.';

COMMENT ON COLUMN hookwire.jobs.uniq IS 'Of live jobs with the same kind and uniq there is one.';

COMMENT ON COLUMN hookwire.jobs.rank_at IS 'The order of claims: when it became available, less one ageing interval for each step of priority.';

COMMENT ON COLUMN hookwire.jobs.due_at IS 'Scheduled or retryable: when it becomes available. Assigned: when the person should be done.';

COMMENT ON COLUMN hookwire.jobs.due_local IS 'A far date as local time, computed again when time zones change.';

COMMENT ON COLUMN hookwire.jobs.due_zone IS 'The time zone of due_local.';

COMMENT ON COLUMN hookwire.jobs.on_due IS 'What happens then: remind, escalate or unassign.';

COMMENT ON COLUMN hookwire.jobs.deadline_at IS 'When it is discarded unless it has ended.';

COMMENT ON COLUMN hookwire.jobs.claim IS 'The fence of the current claim.';

COMMENT ON COLUMN hookwire.jobs.lease_until IS 'When the keeper ends the claim; never later than run_until and deadline_at.';

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

COMMENT ON COLUMN hookwire.jobs.releases IS 'How often in a row it was released or snoozed without an attempt.';

CREATE TABLE hookwire.rabbithub_resources (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    vhost text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    exchange_type text,
    source bigint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    mirror boolean,
    declared_at timestamp with time zone,
    declare_problem text,
    CONSTRAINT rabbithub_resources_check CHECK ((((kind = 'x'::text) = (exchange_type IS NOT NULL)) AND ((kind = 'q'::text) = (source IS NOT NULL)))),
    CONSTRAINT rabbithub_resources_exchange_type_check CHECK ((exchange_type = ANY (ARRAY['direct'::text, 'fanout'::text, 'topic'::text, 'headers'::text]))),
    CONSTRAINT rabbithub_resources_kind_check CHECK ((kind = ANY (ARRAY['x'::text, 'q'::text])))
);

COMMENT ON TABLE hookwire.rabbithub_resources IS 'RabbitHub: exchanges and queues of each virtual host.';

COMMENT ON COLUMN hookwire.rabbithub_resources.kind IS 'x: exchange, q: queue.';

COMMENT ON COLUMN hookwire.rabbithub_resources.source IS 'Of a queue: the pull subscription that keeps its messages.';

COMMENT ON COLUMN hookwire.rabbithub_resources.mirror IS 'Whether the exchange is mirrored to AMQP; NULL: as the hub''s setting says.';

COMMENT ON COLUMN hookwire.rabbithub_resources.declared_at IS 'When a relay last found or declared the exchange in AMQP; NULL: not since it is mirrored.';

COMMENT ON COLUMN hookwire.rabbithub_resources.declare_problem IS 'Why the broker refused to declare the exchange, the last time.';

CREATE TABLE hookwire.layouts (
    number smallint NOT NULL,
    groups jsonb NOT NULL,
    order_scope text NOT NULL,
    hash_version smallint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT layouts_hash_version_check CHECK ((hash_version = 1)),
    CONSTRAINT layouts_order_scope_check CHECK ((order_scope = ANY (ARRAY['topic_key'::text, 'key'::text])))
);

COMMENT ON TABLE hookwire.layouts IS 'Layouts of shards: shard s belongs to partition group s modulo the number of groups. A layout never changes.';

COMMENT ON COLUMN hookwire.layouts.number IS 'The layout''s number; the installation names the current one.';

COMMENT ON COLUMN hookwire.layouts.groups IS 'How many partition groups each sink has.';

COMMENT ON COLUMN hookwire.layouts.order_scope IS 'What is kept in order: the key of a topic (topic_key) or a key in all topics (key).';

COMMENT ON COLUMN hookwire.layouts.hash_version IS 'Which hash of topic and key chooses the shard.';

CREATE TABLE hookwire.requests (
    id uuid NOT NULL,
    number bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    deadline_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    claim bigint,
    attempts integer DEFAULT 0 NOT NULL,
    worker text,
    via text NOT NULL,
    caller text,
    content_type text,
    frame_bytes integer[],
    body bytea NOT NULL,
    answered_at timestamp with time zone,
    reply_content_type text,
    reply_frame_bytes integer[],
    reply bytea,
    last_error text,
    CONSTRAINT requests_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'delayed'::text, 'leased'::text, 'answered'::text, 'expired'::text, 'failed'::text]))),
    CONSTRAINT requests_via_check CHECK ((via = ANY (ARRAY['http'::text, 'sql'::text, 'zeromq'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.requests IS 'Requests to services, from all protocols, until they are closed.';

COMMENT ON COLUMN hookwire.requests.id IS 'Unguessable: over ZeroMQ and SQL it is the right to the answer.';

COMMENT ON COLUMN hookwire.requests.number IS 'The order of acceptance.';

COMMENT ON COLUMN hookwire.requests.deadline_at IS 'When the current state ends by itself.';

COMMENT ON COLUMN hookwire.requests.expires_at IS 'No worker gets it after this.';

COMMENT ON COLUMN hookwire.requests.claim IS 'The last fence, also when its lease is over: its holder may answer until a newer one is drawn.';

COMMENT ON COLUMN hookwire.requests.via IS 'The protocol of the caller: http, sql or zeromq.';

COMMENT ON COLUMN hookwire.requests.caller IS 'Over HTTP the only principal that may ask for the answer.';

COMMENT ON COLUMN hookwire.requests.frame_bytes IS 'The lengths of the frames in body; NULL: one frame.';

COMMENT ON COLUMN hookwire.requests.body IS 'The frames of the request, one after the other.';

COMMENT ON COLUMN hookwire.requests.reply_frame_bytes IS 'The lengths of the frames in reply; NULL: one frame.';

CREATE TABLE hookwire.services (
    id integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    lease_seconds real DEFAULT 30 NOT NULL,
    tries_max integer DEFAULT 5 NOT NULL,
    idempotent boolean DEFAULT true NOT NULL,
    expiry_seconds real DEFAULT 86400 NOT NULL,
    retention_seconds real DEFAULT 604800 NOT NULL,
    concurrency_max integer,
    without_workers text DEFAULT 'queue'::text NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    workers_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    made_by text,
    used_on date,
    CONSTRAINT services_concurrency_max_check CHECK (((concurrency_max >= 1) AND (concurrency_max <= 100000))),
    CONSTRAINT services_expiry_seconds_check CHECK (((expiry_seconds >= (0.05)::double precision) AND (expiry_seconds <= (31536000)::double precision))),
    CONSTRAINT services_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT services_made_by_check CHECK (((made_by IS NULL) = (used_on IS NULL))),
    CONSTRAINT services_retention_seconds_check CHECK (((retention_seconds >= (0.05)::double precision) AND (retention_seconds <= (31536000)::double precision))),
    CONSTRAINT services_tries_max_check CHECK (((tries_max >= 1) AND (tries_max <= 1000))),
    CONSTRAINT services_without_workers_check CHECK ((without_workers = ANY (ARRAY['queue'::text, 'refuse'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.services IS 'Services of request-reply: rows of settings. Requests name their service and need no row (RR-04).';

COMMENT ON COLUMN hookwire.services.tries_max IS 'How often a request is leased before it fails.';

COMMENT ON COLUMN hookwire.services.idempotent IS 'False: a request whose worker was lost is given to no other worker.';

COMMENT ON COLUMN hookwire.services.expiry_seconds IS 'How long a request waits for its reply.';

COMMENT ON COLUMN hookwire.services.retention_seconds IS 'How long replies are kept.';

COMMENT ON COLUMN hookwire.services.concurrency_max IS 'How many requests are leased at once; NULL: no limit.';

COMMENT ON COLUMN hookwire.services.without_workers IS 'Whether requests wait or are refused when no worker is present.';

COMMENT ON COLUMN hookwire.services.disabled IS 'New requests are refused; those that wait are still processed.';

COMMENT ON COLUMN hookwire.services.workers_until IS 'A worker has asked for requests and counts as present until then.';

COMMENT ON COLUMN hookwire.services.made_by IS 'The API key whose use made the service, empty without a key; NULL: made by hand.';

COMMENT ON COLUMN hookwire.services.used_on IS 'The last day on which a process saw a call or a worker; NULL: made by hand.';

CREATE TABLE hookwire.subscriptions (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    protocol text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    topic_url text,
    callback text NOT NULL,
    state text NOT NULL,
    state_reason text,
    ordered boolean DEFAULT false NOT NULL,
    signature_method text DEFAULT 'sha256'::text NOT NULL,
    retry_schedule_seconds integer[],
    timeout_seconds real,
    lease_until timestamp with time zone,
    paused_until timestamp with time zone,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    identity bytea,
    filter jsonb,
    filter_path jsonpath,
    lifetime_seconds integer,
    retry_age_seconds_max integer,
    on_4xx text DEFAULT 'retry'::text NOT NULL,
    on_410 text DEFAULT 'end'::text NOT NULL,
    at_most_once boolean DEFAULT false NOT NULL,
    on_exhausted text DEFAULT 'skip'::text NOT NULL,
    header_names text[],
    headers_key_id text,
    headers_sealed bytea,
    pshb03 boolean DEFAULT false NOT NULL,
    permanent boolean DEFAULT false NOT NULL,
    verify_token text,
    rate_per_second double precision,
    rate_burst integer,
    format text DEFAULT 'as_published'::text NOT NULL,
    request_origin text,
    batch_max integer,
    template text,
    callback_host text,
    requester_network text,
    service text COLLATE pg_catalog."C",
    name text,
    description text,
    metadata jsonb,
    drops_at_end boolean DEFAULT false NOT NULL,
    kind text COLLATE pg_catalog."C",
    queue text COLLATE pg_catalog."C",
    disabled_after_id bigint,
    drains boolean DEFAULT false NOT NULL,
    CONSTRAINT subscriptions_batch_max_check CHECK (((batch_max >= 1) AND (batch_max <= 1000))),
    CONSTRAINT subscriptions_format_check CHECK ((format = ANY (ARRAY['as_published'::text, 'raw'::text, 'binary'::text, 'structured'::text, 'batch'::text, 'websub_ping'::text, 'slack'::text, 'mattermost'::text]))),
    CONSTRAINT subscriptions_headers_check CHECK ((((headers_sealed IS NULL) = (headers_key_id IS NULL)) AND ((headers_sealed IS NULL) = (header_names IS NULL)))),
    CONSTRAINT subscriptions_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT subscriptions_mode_check CHECK ((NOT (at_most_once AND ordered))),
    CONSTRAINT subscriptions_on_410_check CHECK ((on_410 = ANY (ARRAY['end'::text, 'as_4xx'::text]))),
    CONSTRAINT subscriptions_on_4xx_check CHECK ((on_4xx = ANY (ARRAY['retry'::text, 'give_up'::text]))),
    CONSTRAINT subscriptions_on_exhausted_check CHECK ((on_exhausted = ANY (ARRAY['park'::text, 'skip'::text]))),
    CONSTRAINT subscriptions_protocol_check CHECK ((protocol = ANY (ARRAY['webhook'::text, 'websub'::text, 'pull'::text, 'rabbithub'::text, 'service'::text, 'job'::text]))),
    CONSTRAINT subscriptions_rate_burst_check CHECK ((rate_burst > 0)),
    CONSTRAINT subscriptions_rate_per_second_check CHECK ((rate_per_second > (0)::double precision)),
    CONSTRAINT subscriptions_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text, 'gone'::text, 'expired'::text, 'denied'::text, 'deleted'::text])))
);

COMMENT ON TABLE hookwire.subscriptions IS 'Subscriptions of all protocols, with what they want and how they are delivered to.';

COMMENT ON COLUMN hookwire.subscriptions.protocol IS 'webhook (API), websub, pull, rabbithub or service.';

COMMENT ON COLUMN hookwire.subscriptions.topic IS 'The topic or pattern as it was asked for.';

COMMENT ON COLUMN hookwire.subscriptions.topic_regex IS 'The pattern as a regular expression; NULL: one topic.';

COMMENT ON COLUMN hookwire.subscriptions.topic_url IS 'The URL by which a WebSub subscriber named the topic.';

COMMENT ON COLUMN hookwire.subscriptions.callback IS 'The URL that gets the events; empty for pull.';

COMMENT ON COLUMN hookwire.subscriptions.state IS 'As it was set: active, disabled, gone, expired, denied or deleted. Health is computed, not stored.';

COMMENT ON COLUMN hookwire.subscriptions.state_reason IS 'Why it is not active any more.';

COMMENT ON COLUMN hookwire.subscriptions.ordered IS 'Whether the events of a key are delivered one after the other.';

COMMENT ON COLUMN hookwire.subscriptions.signature_method IS 'The hash of WebSub''s signature.';

COMMENT ON COLUMN hookwire.subscriptions.retry_schedule_seconds IS 'Pauses between attempts; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.timeout_seconds IS 'The deadline of one attempt; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.lease_until IS 'The end of a WebSub lease, or of a pull subscription that is not fetched from; NULL: none.';

COMMENT ON COLUMN hookwire.subscriptions.paused_until IS 'Until when a 429 pauses deliveries.';

COMMENT ON COLUMN hookwire.subscriptions.version IS 'Rises with each change; a worker reads the subscription again when a claim names another version.';

COMMENT ON COLUMN hookwire.subscriptions.identity IS 'SHA-256 of topic and callback: the pair, however its URLs are spelled.';

COMMENT ON COLUMN hookwire.subscriptions.filter IS 'The filter as it was asked for.';

COMMENT ON COLUMN hookwire.subscriptions.filter_path IS 'The filter as the predicate that hookwire.passes evaluates.';

COMMENT ON COLUMN hookwire.subscriptions.lifetime_seconds IS 'Pull: how long it lasts without a fetch.';

COMMENT ON COLUMN hookwire.subscriptions.retry_age_seconds_max IS 'How old a delivery may grow before it is given up; NULL: the hub''s setting.';

COMMENT ON COLUMN hookwire.subscriptions.on_4xx IS 'Whether a 4xx is retried or final for its delivery.';

COMMENT ON COLUMN hookwire.subscriptions.on_410 IS 'Whether a 410 ends the subscription or counts as any 4xx.';

COMMENT ON COLUMN hookwire.subscriptions.at_most_once IS 'A delivery whose outcome is unknown is never sent again.';

COMMENT ON COLUMN hookwire.subscriptions.on_exhausted IS 'What an exhausted head of a lane does: park keeps its key waiting, skip goes on.';

COMMENT ON COLUMN hookwire.subscriptions.header_names IS 'The names in headers_sealed, which may be shown.';

COMMENT ON COLUMN hookwire.subscriptions.headers_key_id IS 'The key that sealed headers_sealed.';

COMMENT ON COLUMN hookwire.subscriptions.headers_sealed IS 'Headers of the subscriber''s own, encrypted.';

COMMENT ON COLUMN hookwire.subscriptions.pshb03 IS 'Made by a request of PubSubHubbub 0.3.';

COMMENT ON COLUMN hookwire.subscriptions.permanent IS 'Renewed by the hub before its lease ends (PubSubHubbub 0.3).';

COMMENT ON COLUMN hookwire.subscriptions.verify_token IS 'PubSubHubbub 0.3: the token that is echoed to the callback.';

COMMENT ON COLUMN hookwire.subscriptions.rate_per_second IS 'The rate limit; NULL: none.';

COMMENT ON COLUMN hookwire.subscriptions.rate_burst IS 'How many deliveries may be made at once under the rate limit.';

COMMENT ON COLUMN hookwire.subscriptions.format IS 'How a delivery carries the event.';

COMMENT ON COLUMN hookwire.subscriptions.request_origin IS 'The origin that the callback consented to be sent to by (CloudEvents).';

COMMENT ON COLUMN hookwire.subscriptions.batch_max IS 'How many events one request may carry; NULL: one.';

COMMENT ON COLUMN hookwire.subscriptions.template IS 'How a chat shows an event.';

COMMENT ON COLUMN hookwire.subscriptions.callback_host IS 'The host of the callback, for limits that count by host.';

COMMENT ON COLUMN hookwire.subscriptions.requester_network IS 'The network that asked for it: an IPv4 address or an IPv6 /64.';

COMMENT ON COLUMN hookwire.subscriptions.service IS 'The service whose requests the callback gets; NULL for subscriptions to topics.';

COMMENT ON COLUMN hookwire.subscriptions.metadata IS 'The subscriber''s own JSON, which is only shown again.';

COMMENT ON COLUMN hookwire.subscriptions.drops_at_end IS 'Whether what it is owed at its end is dropped instead of becoming dead letters.';

COMMENT ON COLUMN hookwire.subscriptions.disabled_after_id IS 'The last event id that was drawn when it was disabled: later events got no delivery. NULL: it is not disabled, or was so before this column.';

COMMENT ON COLUMN hookwire.subscriptions.drains IS 'Of a disabled subscription: its open deliveries are sent. Processes of before this column let them wait.';

CREATE TABLE hookwire.incidents (
    id bigint NOT NULL,
    tenant text NOT NULL,
    kind text DEFAULT 'cause'::text NOT NULL,
    subscription_id bigint,
    sink text NOT NULL,
    fingerprint text NOT NULL,
    outcome text NOT NULL,
    status smallint,
    excerpt text DEFAULT ''::text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    is_active boolean DEFAULT false NOT NULL,
    is_told boolean DEFAULT false NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    first_event_id bigint,
    first_at timestamp with time zone DEFAULT now() NOT NULL,
    last_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    actor text,
    reason text,
    CONSTRAINT incidents_check CHECK (((kind = 'held'::text) = (subscription_id IS NULL))),
    CONSTRAINT incidents_kind_check CHECK ((kind = ANY (ARRAY['cause'::text, 'other'::text, 'before'::text, 'held'::text]))),
    CONSTRAINT incidents_state_check CHECK ((state = ANY (ARRAY['open'::text, 'acknowledged'::text, 'resolved'::text, 'ignored'::text])))
);

COMMENT ON TABLE hookwire.incidents IS 'Causes of failures: of the deliveries of a subscription, or of the held records of a sink.';

COMMENT ON COLUMN hookwire.incidents.kind IS 'cause: a fingerprint; other: those beyond the limit; before: what failed before incidents were known; held: held records.';

COMMENT ON COLUMN hookwire.incidents.subscription_id IS 'The subscription that fails; NULL: records are held.';

COMMENT ON COLUMN hookwire.incidents.sink IS 'webhooks, or the sink that holds records.';

COMMENT ON COLUMN hookwire.incidents.fingerprint IS 'A digest of class, status and excerpt, or a word for a kind.';

COMMENT ON COLUMN hookwire.incidents.outcome IS 'The class of the outcome, or the reason of the holds.';

COMMENT ON COLUMN hookwire.incidents.status IS 'The status of the answer.';

COMMENT ON COLUMN hookwire.incidents.excerpt IS 'The beginning of the answer without what differs each time.';

COMMENT ON COLUMN hookwire.incidents.is_active IS 'Whether the rate of five minutes is above five times that of the hour before.';

COMMENT ON COLUMN hookwire.incidents.is_told IS 'Whether operators got a notice that it is open.';

COMMENT ON COLUMN hookwire.incidents.failures IS 'Failed attempts, without those that incident_failures still has.';

COMMENT ON COLUMN hookwire.incidents.first_event_id IS 'The event whose answer gave the excerpt; an erasure of it empties the excerpt.';

COMMENT ON COLUMN hookwire.incidents.first_at IS 'When it began.';

COMMENT ON COLUMN hookwire.incidents.last_at IS 'Its last failure, without those that incident_failures still has.';

COMMENT ON COLUMN hookwire.incidents.changed_at IS 'When it got its state.';

COMMENT ON COLUMN hookwire.incidents.actor IS 'Who gave it its state; NULL: the hub.';

COMMENT ON COLUMN hookwire.incidents.reason IS 'Why it got its state, in the words of the actor.';

CREATE TABLE hookwire.job_kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    automation text,
    machine_percent integer,
    machine_rule jsonb,
    needs_review boolean,
    reviewer_differs boolean,
    escalate_to text,
    attempts_max integer,
    run_seconds real,
    deadline_seconds real,
    lease_seconds real,
    backoff_seconds_min real,
    backoff_seconds_max real,
    doublings_max integer,
    ageing_seconds real,
    running_max integer,
    key_running_max integer,
    key_rate_per_second real,
    key_burst integer,
    events text[],
    retention_days integer,
    is_paused boolean DEFAULT false NOT NULL,
    CONSTRAINT job_kinds_ageing_seconds_check CHECK (((ageing_seconds >= (0.001)::double precision) AND (ageing_seconds <= (86400)::double precision))),
    CONSTRAINT job_kinds_attempts_max_check CHECK (((attempts_max >= 1) AND (attempts_max <= 1000000))),
    CONSTRAINT job_kinds_automation_check CHECK ((automation = ANY (ARRAY['manual'::text, 'assisted'::text, 'mostly'::text, 'automatic'::text]))),
    CONSTRAINT job_kinds_backoff_seconds_max_check CHECK (((backoff_seconds_max >= (0)::double precision) AND (backoff_seconds_max <= (2592000)::double precision))),
    CONSTRAINT job_kinds_backoff_seconds_min_check CHECK (((backoff_seconds_min >= (0)::double precision) AND (backoff_seconds_min <= (86400)::double precision))),
    CONSTRAINT job_kinds_check CHECK (((kind <> '*'::text) OR (num_nulls(automation, machine_percent, needs_review, reviewer_differs, attempts_max, run_seconds, lease_seconds, backoff_seconds_min, backoff_seconds_max, doublings_max, ageing_seconds, key_burst, events, retention_days) = 0))),
    CONSTRAINT job_kinds_deadline_seconds_check CHECK (((deadline_seconds >= (0.05)::double precision) AND (deadline_seconds <= (315360000)::double precision))),
    CONSTRAINT job_kinds_doublings_max_check CHECK (((doublings_max >= 0) AND (doublings_max <= 60))),
    CONSTRAINT job_kinds_escalate_to_check CHECK (((octet_length(escalate_to) >= 1) AND (octet_length(escalate_to) <= 200))),
    CONSTRAINT job_kinds_events_check CHECK ((events <@ ARRAY['scheduled'::text, 'available'::text, 'assigned'::text, 'running'::text, 'review'::text, 'retryable'::text, 'completed'::text, 'cancelled'::text, 'discarded'::text, 'progress'::text, 'due'::text])),
    CONSTRAINT job_kinds_key_burst_check CHECK (((key_burst >= 1) AND (key_burst <= 1000000))),
    CONSTRAINT job_kinds_key_rate_per_second_check CHECK (((key_rate_per_second >= (0.000001)::double precision) AND (key_rate_per_second <= (1000000)::double precision))),
    CONSTRAINT job_kinds_key_running_max_check CHECK (((key_running_max >= 1) AND (key_running_max <= 1000000))),
    CONSTRAINT job_kinds_kind_check CHECK (((kind = '*'::text) OR hookwire.is_queue_name(kind))),
    CONSTRAINT job_kinds_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT job_kinds_machine_percent_check CHECK (((machine_percent >= 0) AND (machine_percent <= 100))),
    CONSTRAINT job_kinds_machine_rule_check CHECK ((jsonb_typeof(machine_rule) = 'object'::text)),
    CONSTRAINT job_kinds_retention_days_check CHECK (((retention_days >= 0) AND (retention_days <= 3660))),
    CONSTRAINT job_kinds_run_seconds_check CHECK (((run_seconds >= (0.05)::double precision) AND (run_seconds <= (2592000)::double precision))),
    CONSTRAINT job_kinds_running_max_check CHECK (((running_max >= 1) AND (running_max <= 1000000)))
);

COMMENT ON TABLE hookwire.job_kinds IS 'How jobs of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';

COMMENT ON COLUMN hookwire.job_kinds.automation IS 'Whether jobs go to people, machines or both: manual, assisted, mostly or automatic.';

COMMENT ON COLUMN hookwire.job_kinds.machine_percent IS 'With automation mostly: the share of jobs that goes to machines.';

COMMENT ON COLUMN hookwire.job_kinds.machine_rule IS 'With automation mostly: jobs whose arguments contain it go to machines.';

COMMENT ON COLUMN hookwire.job_kinds.needs_review IS 'Whether a result has to be reviewed.';

COMMENT ON COLUMN hookwire.job_kinds.reviewer_differs IS 'Whether the reviewer must not be the performer.';

COMMENT ON COLUMN hookwire.job_kinds.escalate_to IS 'Who gets a job that is past its due time.';

COMMENT ON COLUMN hookwire.job_kinds.deadline_seconds IS 'From the submission of a job to its end; NULL: no limit.';

COMMENT ON COLUMN hookwire.job_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';

COMMENT ON COLUMN hookwire.job_kinds.ageing_seconds IS 'The waiting time that is worth one step of priority.';

COMMENT ON COLUMN hookwire.job_kinds.running_max IS 'How many jobs of the kind run at once.';

COMMENT ON COLUMN hookwire.job_kinds.key_running_max IS 'How many jobs of one key run at once.';

COMMENT ON COLUMN hookwire.job_kinds.key_rate_per_second IS 'How many jobs of one key start in a second.';

COMMENT ON COLUMN hookwire.job_kinds.key_burst IS 'How many of these may start at once.';

COMMENT ON COLUMN hookwire.job_kinds.events IS 'The states whose changes are published.';

COMMENT ON COLUMN hookwire.job_kinds.retention_days IS 'How long ended jobs stay in the archive; 0: they are not kept.';

COMMENT ON COLUMN hookwire.job_kinds.is_paused IS 'Whether nothing of the kind is claimed.';

CREATE TABLE hookwire.upstreams (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    token text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    hub_url text,
    self_url text,
    state text DEFAULT 'wanted'::text NOT NULL,
    reason text,
    lease_until timestamp with time zone,
    due_at timestamp with time zone DEFAULT now(),
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    given_hub_url text,
    given_topic_url text,
    received_at timestamp with time zone,
    longest_gap interval,
    quiet_told_at timestamp with time zone,
    CONSTRAINT upstreams_state_check CHECK ((state = ANY (ARRAY['wanted'::text, 'requested'::text, 'active'::text, 'denied'::text, 'ended'::text])))
);

COMMENT ON TABLE hookwire.upstreams IS 'Foreign topics that another hub delivers here, instead of being fetched.';

COMMENT ON COLUMN hookwire.upstreams.url IS 'Where the topic is discovered.';

COMMENT ON COLUMN hookwire.upstreams.token IS 'The part of the callback''s URL that cannot be guessed.';

COMMENT ON COLUMN hookwire.upstreams.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.upstreams.sealed IS 'The secret of the subscription there, encrypted.';

COMMENT ON COLUMN hookwire.upstreams.hub_url IS 'The hub that was discovered last.';

COMMENT ON COLUMN hookwire.upstreams.self_url IS 'The topic as the other hub names it.';

COMMENT ON COLUMN hookwire.upstreams.due_at IS 'When the topic is discovered and its hub is asked again; NULL: not by itself.';

COMMENT ON COLUMN hookwire.upstreams.claimed_until IS 'Until when one process makes it.';

COMMENT ON COLUMN hookwire.upstreams.claims IS 'Claims so far; the number of the latest is its fence.';

COMMENT ON COLUMN hookwire.upstreams.failures IS 'Failed requests in a row.';

COMMENT ON COLUMN hookwire.upstreams.given_hub_url IS 'The hub that a person named; NULL: it is discovered.';

COMMENT ON COLUMN hookwire.upstreams.given_topic_url IS 'The topic''s URL that a person named; NULL: it is discovered.';

COMMENT ON COLUMN hookwire.upstreams.received_at IS 'When the last delivery came.';

COMMENT ON COLUMN hookwire.upstreams.longest_gap IS 'The longest time between two deliveries.';

COMMENT ON COLUMN hookwire.upstreams.quiet_told_at IS 'When it was told that nothing comes; NULL: since the last delivery never.';

CREATE TABLE hookwire.relay_batch_numbers (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE hookwire.relay_batch_numbers IS 'The last batch number of each partition group: the next one is a new row, and replaces its predecessor.';

COMMENT ON COLUMN hookwire.relay_batch_numbers.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_batch_numbers.batch_no IS 'The last number that was drawn.';

CREATE TABLE hookwire.messages (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    claim bigint,
    due_at timestamp with time zone,
    lease_until timestamp with time zone,
    claimed_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    deliveries integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    receiver text,
    type text COLLATE pg_catalog."C",
    key text COLLATE pg_catalog."C",
    content_type text,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    payload bytea NOT NULL,
    last_reason text,
    releases smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.messages IS 'Live messages. Accepted and dead ones leave the table in the statement that settles them.';

COMMENT ON COLUMN hookwire.messages.claim IS 'The fence of the current lease; NULL: available or delayed.';

COMMENT ON COLUMN hookwire.messages.due_at IS 'Not available before; NULL: at once.';

COMMENT ON COLUMN hookwire.messages.lease_until IS 'When the reaper makes it available again.';

COMMENT ON COLUMN hookwire.messages.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.messages.receiver IS 'The client that holds it.';

COMMENT ON COLUMN hookwire.messages.type IS 'A word by which receivers filter.';

COMMENT ON COLUMN hookwire.messages.last_reason IS 'Why it was rejected last.';

COMMENT ON COLUMN hookwire.messages.releases IS 'How often in a row it was returned without counting the delivery.';

CREATE TABLE hookwire.sinks (
    name text NOT NULL,
    configured boolean NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    pause_reason text,
    CONSTRAINT sinks_name_check CHECK ((name = ANY (ARRAY['kafka'::text, 'amqp'::text, 'webhooks'::text, 'jobs'::text])))
);

COMMENT ON TABLE hookwire.sinks IS 'The sinks that exist: webhooks, jobs, kafka and amqp.';

COMMENT ON COLUMN hookwire.sinks.configured IS 'Whether a process of this installation carries records to the sink.';

COMMENT ON COLUMN hookwire.sinks.paused_at IS 'Since when nothing is claimed for the sink. NULL: it is not paused.';

COMMENT ON COLUMN hookwire.sinks.paused_by IS 'Who paused it.';

COMMENT ON COLUMN hookwire.sinks.pause_reason IS 'Why, in the words of that person.';

CREATE TABLE hookwire.queues (
    id integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    moves boolean DEFAULT true NOT NULL,
    copies boolean DEFAULT false NOT NULL,
    history boolean DEFAULT false NOT NULL,
    lease_seconds real DEFAULT 30 NOT NULL,
    deliveries_max integer DEFAULT 5 NOT NULL,
    retention_days integer DEFAULT 14 NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    owner text,
    expires_at timestamp with time zone,
    lifetime_seconds integer,
    graduated boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    made_by text,
    used_on date,
    CONSTRAINT queues_check CHECK (((lifetime_seconds IS NULL) = (expires_at IS NULL))),
    CONSTRAINT queues_check1 CHECK ((moves OR copies)),
    CONSTRAINT queues_deliveries_max_check CHECK (((deliveries_max >= 1) AND (deliveries_max <= 1000))),
    CONSTRAINT queues_lease_seconds_check CHECK (((lease_seconds >= (0.05)::double precision) AND (lease_seconds <= (43200)::double precision))),
    CONSTRAINT queues_made_by_check CHECK (((made_by IS NULL) = (used_on IS NULL))),
    CONSTRAINT queues_retention_days_check CHECK (((retention_days >= 1) AND (retention_days <= 3660)))
);

COMMENT ON TABLE hookwire.queues IS 'Message queues: rows of settings. Messages name their queue and need no row (RR-04).';

COMMENT ON COLUMN hookwire.queues.moves IS 'Whether receivers take messages off the queue.';

COMMENT ON COLUMN hookwire.queues.copies IS 'Whether durable consumers read copies.';

COMMENT ON COLUMN hookwire.queues.history IS 'Whether accepted messages go into the archive.';

COMMENT ON COLUMN hookwire.queues.deliveries_max IS 'How often a message is delivered before it is a dead letter.';

COMMENT ON COLUMN hookwire.queues.retention_days IS 'How long archive, copies and dead letters are kept.';

COMMENT ON COLUMN hookwire.queues.paused IS 'Whether receivers get nothing.';

COMMENT ON COLUMN hookwire.queues.owner IS 'Of a temporary queue: the client that may remove it.';

COMMENT ON COLUMN hookwire.queues.expires_at IS 'Of a temporary queue: when it is removed; put off by each receive.';

COMMENT ON COLUMN hookwire.queues.lifetime_seconds IS 'Of a temporary queue: how far a receive puts the end off.';

COMMENT ON COLUMN hookwire.queues.graduated IS 'Whether its messages lie in a table of their own, messages_<id>.';

COMMENT ON COLUMN hookwire.queues.made_by IS 'The API key whose use made the queue, empty without a key; NULL: made by hand.';

COMMENT ON COLUMN hookwire.queues.used_on IS 'The last day on which a process saw a submission; NULL: made by hand.';

CREATE TABLE hookwire.task_rows (
    id text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT 'default'::text NOT NULL,
    description text NOT NULL,
    start_time timestamp with time zone,
    finish_time timestamp with time zone,
    kind text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    due_at timestamp with time zone,
    notify_at timestamp with time zone,
    claim bigint,
    worker text,
    lease_until timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    last_error text,
    releases smallint DEFAULT 0 NOT NULL,
    is_unique boolean,
    CONSTRAINT task_rows_description_check CHECK ((octet_length(description) <= 1048576)),
    CONSTRAINT task_rows_id_check CHECK ((((octet_length(id) >= 1) AND (octet_length(id) <= 200)) AND (id !~ '[\x01-\x1f\x7f]'::text))),
    CONSTRAINT task_times_are_in_the_years_1_to_9999 CHECK (((LEAST(start_time, finish_time, created_at, due_at, notify_at, lease_until) >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (GREATEST(start_time, finish_time, created_at, due_at, notify_at, lease_until) <= '9999-12-31 23:59:59.999999+00'::timestamp with time zone)))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.task_rows IS 'Live tasks. A task exists if and only if the transaction that enqueued it committed.';

COMMENT ON COLUMN hookwire.task_rows.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.task_rows.start_time IS 'When it was begun; NULL: nobody has begun it.';

COMMENT ON COLUMN hookwire.task_rows.finish_time IS 'When it was finished; then it is archived.';

COMMENT ON COLUMN hookwire.task_rows.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.task_rows.due_at IS 'Not to be begun before; NULL: at once.';

COMMENT ON COLUMN hookwire.task_rows.notify_at IS 'When the cleaner notifies of it again; NULL: never.';

COMMENT ON COLUMN hookwire.task_rows.claim IS 'The fence of the worker that has begun it.';

COMMENT ON COLUMN hookwire.task_rows.lease_until IS 'When it counts as crashed.';

COMMENT ON COLUMN hookwire.task_rows.releases IS 'How often in a row it was released without an attempt.';

COMMENT ON COLUMN hookwire.task_rows.is_unique IS 'Whether no other live task has its kind and description; NULL: enqueued before there was this mark.';

CREATE TABLE hookwire.task_kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    on_crash text,
    compensation_kind text,
    notify text,
    lookup_seconds real,
    giveup_seconds real,
    cleanup_seconds real,
    crash_seconds real,
    attempts_max integer,
    age_seconds_max real,
    backoff_seconds_min real,
    backoff_seconds_max real,
    doublings_max integer,
    keeps_record boolean,
    is_unique boolean,
    CONSTRAINT task_kinds_age_seconds_max_check CHECK ((age_seconds_max > (0)::double precision)),
    CONSTRAINT task_kinds_attempts_max_check CHECK (((attempts_max >= 1) AND (attempts_max <= 1000000))),
    CONSTRAINT task_kinds_backoff_seconds_max_check CHECK (((backoff_seconds_max >= (0)::double precision) AND (backoff_seconds_max <= (2592000)::double precision))),
    CONSTRAINT task_kinds_backoff_seconds_min_check CHECK (((backoff_seconds_min >= (0)::double precision) AND (backoff_seconds_min <= (86400)::double precision))),
    CONSTRAINT task_kinds_check CHECK (((kind <> '*'::text) OR (num_nulls(on_crash, lookup_seconds, giveup_seconds, cleanup_seconds, crash_seconds, attempts_max, backoff_seconds_min, backoff_seconds_max, doublings_max, keeps_record, is_unique) = 0))),
    CONSTRAINT task_kinds_cleanup_seconds_check CHECK (((cleanup_seconds >= (0.1)::double precision) AND (cleanup_seconds <= (86400)::double precision))),
    CONSTRAINT task_kinds_compensation_kind_check CHECK (((compensation_kind IS NULL) OR hookwire.is_queue_name(compensation_kind))),
    CONSTRAINT task_kinds_crash_seconds_check CHECK (((crash_seconds >= (0.1)::double precision) AND (crash_seconds <= (2592000)::double precision))),
    CONSTRAINT task_kinds_doublings_max_check CHECK (((doublings_max >= 0) AND (doublings_max <= 60))),
    CONSTRAINT task_kinds_giveup_seconds_check CHECK (((giveup_seconds >= (0)::double precision) AND (giveup_seconds <= (600)::double precision))),
    CONSTRAINT task_kinds_kind_check CHECK (((kind = '*'::text) OR hookwire.is_queue_name(kind))),
    CONSTRAINT task_kinds_lookup_seconds_check CHECK (((lookup_seconds >= (0.01)::double precision) AND (lookup_seconds <= (60)::double precision))),
    CONSTRAINT task_kinds_notify_check CHECK ((notify = ANY (ARRAY['nobody'::text, 'notify'::text, 'relay'::text, 'enqueuer'::text]))),
    CONSTRAINT task_kinds_on_crash_check CHECK ((on_crash = ANY (ARRAY['retry'::text, 'compensate'::text, 'abandon'::text])))
);

COMMENT ON TABLE hookwire.task_kinds IS 'How tasks of a kind are treated. A kind needs no row; NULL means as in the row ''*''.';

COMMENT ON COLUMN hookwire.task_kinds.on_crash IS 'What the cleaner does with a crashed task: retry, compensate or abandon.';

COMMENT ON COLUMN hookwire.task_kinds.compensation_kind IS 'The kind of the task that undoes a crashed one.';

COMMENT ON COLUMN hookwire.task_kinds.notify IS 'How workers are notified: nobody, notify, relay or enqueuer.';

COMMENT ON COLUMN hookwire.task_kinds.lookup_seconds IS 'Between two looks for a row that a notification named and that is not there yet.';

COMMENT ON COLUMN hookwire.task_kinds.giveup_seconds IS 'After which such a notification is dropped.';

COMMENT ON COLUMN hookwire.task_kinds.cleanup_seconds IS 'After which the cleaner notifies of a task again.';

COMMENT ON COLUMN hookwire.task_kinds.crash_seconds IS 'After which a task that was begun counts as crashed.';

COMMENT ON COLUMN hookwire.task_kinds.age_seconds_max IS 'With attempts_max: dead when both are passed.';

COMMENT ON COLUMN hookwire.task_kinds.doublings_max IS 'How often the backoff doubles before it grows by the last step.';

COMMENT ON COLUMN hookwire.task_kinds.keeps_record IS 'Whether finished tasks go into the archive.';

COMMENT ON COLUMN hookwire.task_kinds.is_unique IS 'Whether enqueueing the same description again finds the same task.';

CREATE TABLE hookwire.job_archive (
    id uuid NOT NULL,
    seq bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL,
    state text NOT NULL,
    args jsonb NOT NULL,
    key text NOT NULL,
    uniq text COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    attempts integer NOT NULL,
    attempts_max integer NOT NULL,
    run_seconds real NOT NULL,
    worker text,
    assignee text COLLATE pg_catalog."C",
    performer text COLLATE pg_catalog."C",
    number integer NOT NULL,
    result jsonb,
    errors jsonb NOT NULL,
    reason text,
    created_by text,
    created_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone,
    ended_at timestamp with time zone NOT NULL,
    ended_by text,
    CONSTRAINT job_archive_state_check CHECK ((state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'discarded'::text])))
);

COMMENT ON TABLE hookwire.job_archive IS 'Ended jobs.';

COMMENT ON COLUMN hookwire.job_archive.seq IS 'The order of enqueueing.';

COMMENT ON COLUMN hookwire.job_archive.state IS 'How it ended: completed, cancelled or discarded.';

COMMENT ON COLUMN hookwire.job_archive.args IS 'The arguments.';

COMMENT ON COLUMN hookwire.job_archive.key IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.uniq IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.assignee IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.performer IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.number IS 'The number of its last change of state.';

COMMENT ON COLUMN hookwire.job_archive.errors IS 'Failures.';

COMMENT ON COLUMN hookwire.job_archive.reason IS 'Why it was cancelled or discarded.';

COMMENT ON COLUMN hookwire.job_archive.created_by IS 'As in jobs.';

COMMENT ON COLUMN hookwire.job_archive.ended_by IS 'The key, person or worker that ended it.';

CREATE VIEW hookwire.all_jobs AS
 SELECT j.id,
    j.kind,
    j.queue,
    j.state,
    j.key,
    j.uniq,
    j.args,
    j.result,
    j.priority,
    j.attempts,
    j.assignee,
    j.performer,
    j.worker,
    j.created_by,
    j.created_at,
    j.claimed_at,
    NULL::timestamp with time zone AS ended_at,
    NULL::text AS ended_by,
    NULL::text AS reason
   FROM hookwire.jobs j
UNION ALL
 SELECT a.id,
    a.kind,
    a.queue,
    a.state,
    a.key,
    a.uniq,
    a.args,
    a.result,
    a.priority,
    a.attempts,
    a.assignee,
    a.performer,
    a.worker,
    a.created_by,
    a.created_at,
    a.claimed_at,
    a.ended_at,
    a.ended_by,
    a.reason
   FROM hookwire.job_archive a;

COMMENT ON VIEW hookwire.all_jobs IS 'Live and ended jobs in one shape.';

CREATE TABLE hookwire.api_keys (
    id bigint NOT NULL,
    public_id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    scopes text[] NOT NULL,
    topics text[],
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    queues text[],
    kinds text[],
    services text[],
    CONSTRAINT api_keys_digest_check CHECK ((length(digest) = 32)),
    CONSTRAINT api_keys_kinds_check CHECK ((cardinality(kinds) > 0)),
    CONSTRAINT api_keys_queues_check CHECK ((cardinality(queues) > 0)),
    CONSTRAINT api_keys_scopes_check CHECK (((scopes <@ ARRAY['publish'::text, 'subscribe'::text, 'read'::text, 'payloads'::text, 'operate'::text, 'enqueue'::text, 'work'::text, 'call'::text, 'admin'::text]) AND (cardinality(scopes) > 0))),
    CONSTRAINT api_keys_services_check CHECK ((cardinality(services) > 0)),
    CONSTRAINT api_keys_topics_check CHECK ((cardinality(topics) > 0))
);

COMMENT ON TABLE hookwire.api_keys IS 'API keys. A key is known by the SHA-256 of its text; the text is shown once (SE-04).';

COMMENT ON COLUMN hookwire.api_keys.digest IS 'SHA-256 of the key''s text.';

COMMENT ON COLUMN hookwire.api_keys.scopes IS 'What the key may do.';

COMMENT ON COLUMN hookwire.api_keys.topics IS 'Patterns of topics that it may use; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.queues IS 'Patterns of queues; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.kinds IS 'Patterns of kinds of tasks and jobs; NULL: all.';

COMMENT ON COLUMN hookwire.api_keys.services IS 'Patterns of services; NULL: all.';

ALTER TABLE hookwire.api_keys ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.api_keys_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.attempt_entries (
    settled_at timestamp with time zone DEFAULT now() NOT NULL,
    subscription_ids bigint[] NOT NULL,
    seconds real[] NOT NULL,
    ages real[] NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY hookwire.attempt_entries ALTER COLUMN subscription_ids SET STORAGE MAIN;
ALTER TABLE ONLY hookwire.attempt_entries ALTER COLUMN seconds SET STORAGE MAIN;
ALTER TABLE ONLY hookwire.attempt_entries ALTER COLUMN ages SET STORAGE MAIN;

COMMENT ON TABLE hookwire.attempt_entries IS 'Stored attempts: one row for each settlement, folded into attempt_rollups within a minute.';

COMMENT ON COLUMN hookwire.attempt_entries.settled_at IS 'When the transaction began that stored them.';

COMMENT ON COLUMN hookwire.attempt_entries.subscription_ids IS 'The subscription of each attempt; the two other arrays have the same order.';

COMMENT ON COLUMN hookwire.attempt_entries.seconds IS 'How long each attempt took; negative: nothing was sent; NULL: it was counted before, and is known as delivered now.';

COMMENT ON COLUMN hookwire.attempt_entries.ages IS 'Seconds from the acceptance of the event to its delivery; negative: not timed; NULL: this attempt did not deliver it.';

CREATE TABLE hookwire.attempt_rollups (
    subscription_id bigint NOT NULL,
    grain text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    latency_buckets smallint[] NOT NULL,
    latency_counts bigint[] NOT NULL,
    age_buckets smallint[] NOT NULL,
    age_counts bigint[] NOT NULL,
    CONSTRAINT attempt_rollups_grain_check CHECK ((grain = ANY (ARRAY['minute'::text, 'hour'::text, 'day'::text])))
)
WITH (fillfactor='70');

COMMENT ON TABLE hookwire.attempt_rollups IS 'Attempts of a subscription in a minute, an hour or a day, by how long they took.';

COMMENT ON COLUMN hookwire.attempt_rollups.grain IS 'minute, hour or day.';

COMMENT ON COLUMN hookwire.attempt_rollups.at IS 'When the minute, hour or day (UTC) begins.';

COMMENT ON COLUMN hookwire.attempt_rollups.attempts IS 'The attempts, also those that ended before anything was sent.';

COMMENT ON COLUMN hookwire.attempt_rollups.delivered IS 'The deliveries.';

COMMENT ON COLUMN hookwire.attempt_rollups.latency_buckets IS 'Bucket n has the times from 0.0001 * 1.1^n seconds up to the next bucket. Bucket 0 has all shorter ones, too.';

COMMENT ON COLUMN hookwire.attempt_rollups.latency_counts IS 'The attempts in each of these buckets. Those of receivers that fetch are not timed.';

COMMENT ON COLUMN hookwire.attempt_rollups.age_buckets IS 'As latency_buckets, for the time from the acceptance of the event to its delivery.';

COMMENT ON COLUMN hookwire.attempt_rollups.age_counts IS 'The deliveries in each of these buckets. Those of replays and of receivers that fetch are not timed.';

CREATE TABLE hookwire.attempts (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    status smallint,
    connect_seconds real,
    first_byte_seconds real,
    total_seconds real NOT NULL,
    tenant text NOT NULL,
    outcome text NOT NULL,
    decision text NOT NULL,
    trigger text NOT NULL,
    worker text NOT NULL,
    address text,
    detail text,
    response_headers jsonb,
    response_body bytea
)
PARTITION BY RANGE (event_id);

COMMENT ON TABLE hookwire.attempts IS 'Finished attempts of deliveries, partitioned by event id.';

COMMENT ON COLUMN hookwire.attempts.number IS 'The attempt''s number within its delivery, from 1.';

COMMENT ON COLUMN hookwire.attempts.connect_seconds IS 'Until the connection stood; NULL: a kept connection was used.';

COMMENT ON COLUMN hookwire.attempts.outcome IS 'What the answer, or its absence, means.';

COMMENT ON COLUMN hookwire.attempts.decision IS 'What followed: delivered, retry, park, dead, dropped; probe: nothing, the dead letter stays.';

COMMENT ON COLUMN hookwire.attempts.trigger IS 'Why it was made: first, retry, replay or manual.';

COMMENT ON COLUMN hookwire.attempts.address IS 'The IP address that was dialled.';

COMMENT ON COLUMN hookwire.attempts.detail IS 'One line for the subscriber.';

COMMENT ON COLUMN hookwire.attempts.response_headers IS 'Some headers of an answer that was no success.';

COMMENT ON COLUMN hookwire.attempts.response_body IS 'The first bytes of an answer that was no success.';

CREATE TABLE hookwire.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    tenant text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    reason text,
    records bigint DEFAULT 1 NOT NULL,
    role text DEFAULT hookwire.sql_role()
);

COMMENT ON TABLE hookwire.audit IS 'What operators did, to what, and why; written in the statement that does it.';

COMMENT ON COLUMN hookwire.audit.actor IS 'The public id or name of the key that was used.';

COMMENT ON COLUMN hookwire.audit.action IS 'The operation, as noun.verb.';

COMMENT ON COLUMN hookwire.audit.subject IS 'What it was done to.';

COMMENT ON COLUMN hookwire.audit.records IS 'How many records it concerned.';

COMMENT ON COLUMN hookwire.audit.role IS 'The database role that named the actor in SQL; NULL for the hub itself.';

ALTER TABLE hookwire.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.backfill_batches (
    replay_id bigint NOT NULL,
    above_id bigint NOT NULL,
    part integer NOT NULL,
    sent bigint[] NOT NULL,
    erased bigint[] NOT NULL,
    unwanted bigint[] NOT NULL,
    refused bigint[] NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.backfill_batches IS 'What became of the events of a backfill, batch by batch.';

COMMENT ON COLUMN hookwire.backfill_batches.replay_id IS 'The backfill.';

COMMENT ON COLUMN hookwire.backfill_batches.above_id IS 'Its events have higher ids: the cursor at its beginning.';

COMMENT ON COLUMN hookwire.backfill_batches.part IS 'From 0; a batch that was interrupted has several.';

COMMENT ON COLUMN hookwire.backfill_batches.sent IS 'Events that the receiver has taken.';

COMMENT ON COLUMN hookwire.backfill_batches.erased IS 'Events that were erased, and so were not sent.';

COMMENT ON COLUMN hookwire.backfill_batches.unwanted IS 'Events that the filter of the subscription does not pass.';

COMMENT ON COLUMN hookwire.backfill_batches.refused IS 'Events that the receiver did not take, and that were skipped.';

COMMENT ON COLUMN hookwire.backfill_batches.noted_at IS 'When it was stored.';

CREATE TABLE hookwire.backfill_failures (
    replay_id bigint NOT NULL,
    event_id bigint NOT NULL,
    attempts integer NOT NULL,
    failed_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome text NOT NULL,
    status smallint
);

COMMENT ON TABLE hookwire.backfill_failures IS 'The failed attempts of a backfill, the last one of each event.';

COMMENT ON COLUMN hookwire.backfill_failures.replay_id IS 'The backfill.';

COMMENT ON COLUMN hookwire.backfill_failures.attempts IS 'The number of failed attempts.';

COMMENT ON COLUMN hookwire.backfill_failures.failed_at IS 'When the last one failed.';

COMMENT ON COLUMN hookwire.backfill_failures.outcome IS 'The class of its answer, or why there was none.';

COMMENT ON COLUMN hookwire.backfill_failures.status IS 'The status of its answer; NULL: there was none.';

CREATE TABLE hookwire.backfills (
    replay_id bigint NOT NULL,
    lake text NOT NULL,
    topics text[] NOT NULL,
    kafka_topics text[] NOT NULL,
    events bigint NOT NULL,
    erased_at_start bigint NOT NULL,
    before_live boolean NOT NULL,
    skips boolean NOT NULL,
    attempts_max integer NOT NULL,
    fence bigint DEFAULT 1 NOT NULL,
    holder text NOT NULL,
    lease_until timestamp with time zone,
    why text,
    CONSTRAINT backfills_attempts_max_check CHECK ((attempts_max > 0))
);

COMMENT ON TABLE hookwire.backfills IS 'Replays from a lake: what they have beside the columns of hookwire.replays.';

COMMENT ON COLUMN hookwire.backfills.replay_id IS 'Its row in hookwire.replays.';

COMMENT ON COLUMN hookwire.backfills.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.backfills.topics IS 'The topics of the range, fixed at the start.';

COMMENT ON COLUMN hookwire.backfills.kafka_topics IS 'The topic in Kafka of each of them.';

COMMENT ON COLUMN hookwire.backfills.events IS 'The number of events in the range at the start.';

COMMENT ON COLUMN hookwire.backfills.erased_at_start IS 'The number of events that the lake noted as erased at the start.';

COMMENT ON COLUMN hookwire.backfills.before_live IS 'Whether live deliveries of the subscription wait meanwhile.';

COMMENT ON COLUMN hookwire.backfills.skips IS 'Whether it goes on past an event that the receiver does not take.';

COMMENT ON COLUMN hookwire.backfills.attempts_max IS 'The number of attempts at an event.';

COMMENT ON COLUMN hookwire.backfills.fence IS 'The number of times that a process has taken it. Only the last one may write.';

COMMENT ON COLUMN hookwire.backfills.holder IS 'The process that took it last.';

COMMENT ON COLUMN hookwire.backfills.lease_until IS 'Until then no other process may take it; NULL: nobody holds it.';

COMMENT ON COLUMN hookwire.backfills.why IS 'Why it stopped by itself; NULL: it did not.';

CREATE TABLE hookwire.compat_parked (
    outbox text NOT NULL,
    key text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    record_id bigint NOT NULL,
    topic text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 1 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL,
    row_id text
);

COMMENT ON TABLE hookwire.compat_parked IS 'Keys of an outbox table of others whose record was refused. Deleting a row tries the key again at once.';

COMMENT ON COLUMN hookwire.compat_parked.outbox IS 'The table, quoted as PostgreSQL quotes it.';

COMMENT ON COLUMN hookwire.compat_parked.key IS 'The key of the refused record.';

COMMENT ON COLUMN hookwire.compat_parked.record_id IS 'The id of the refused record in that table.';

COMMENT ON COLUMN hookwire.compat_parked.reason IS 'The kind of refusal.';

COMMENT ON COLUMN hookwire.compat_parked.attempts IS 'How often the record was probed.';

COMMENT ON COLUMN hookwire.compat_parked.since IS 'When the key was parked.';

COMMENT ON COLUMN hookwire.compat_parked.probe_at IS 'When Kafka is asked again.';

COMMENT ON COLUMN hookwire.compat_parked.row_id IS 'The id of the refused row in a mapped table, as text; NULL in goharvest''s.';

CREATE TABLE hookwire.console_sessions (
    digest bytea NOT NULL,
    key_id bigint NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE hookwire.console_sessions IS 'Browsers that have signed in to the console. A session ends with its key.';

COMMENT ON COLUMN hookwire.console_sessions.digest IS 'SHA-256 of the token in the cookie; the token itself is not stored.';

COMMENT ON COLUMN hookwire.console_sessions.key_id IS 'The API key with which the browser signed in; its rights are read anew.';

CREATE TABLE hookwire.consumers (
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    after_id bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    claim bigint,
    lease_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.consumers IS 'Durable consumers of copies, each with its position (xid, id) in the log.';

COMMENT ON COLUMN hookwire.consumers.xid IS 'The position: the transaction of the last accepted message.';

COMMENT ON COLUMN hookwire.consumers.id IS 'The position: messages up to this id are accepted.';

COMMENT ON COLUMN hookwire.consumers.after_id IS 'Of the messages before its registration it reads those above this id.';

COMMENT ON COLUMN hookwire.consumers.since IS 'And those from this moment on.';

COMMENT ON COLUMN hookwire.consumers.claim IS 'The fence of the reader that holds the next messages.';

CREATE TABLE hookwire.dead_letters (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    attempts integer NOT NULL,
    last_status smallint,
    last_outcome text,
    detail text,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    on_purpose boolean DEFAULT false NOT NULL,
    incident_id bigint
);

COMMENT ON TABLE hookwire.dead_letters IS 'Deliveries that were given up; they can be replayed or purged.';

COMMENT ON COLUMN hookwire.dead_letters.kind IS 'Why: exhausted, too_late, declined, aborted, given_up or internal. What ended by itself: gone or erased.';

COMMENT ON COLUMN hookwire.dead_letters.last_status IS 'The status of the last answer.';

COMMENT ON COLUMN hookwire.dead_letters.last_outcome IS 'The class of the last attempt''s outcome.';

COMMENT ON COLUMN hookwire.dead_letters.on_purpose IS 'Whether a person gave it up.';

COMMENT ON COLUMN hookwire.dead_letters.incident_id IS 'The incident of its last failure; NULL: none, or not grouped yet.';

CREATE TABLE hookwire.dead_messages (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    reason text NOT NULL,
    priority smallint NOT NULL,
    receiver text,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.dead_messages IS 'Messages that were delivered too often or given up.';

COMMENT ON COLUMN hookwire.dead_messages.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.dead_messages.receiver IS 'The client that held it last.';

COMMENT ON COLUMN hookwire.dead_messages.type IS 'As in messages.';

CREATE TABLE hookwire.dead_tasks (
    number bigint NOT NULL,
    id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    description text NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL,
    worker text,
    created_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    told_at timestamp with time zone,
    is_unique boolean
);

COMMENT ON TABLE hookwire.dead_tasks IS 'Tasks that were given up.';

COMMENT ON COLUMN hookwire.dead_tasks.number IS 'Tells rows of one id apart.';

COMMENT ON COLUMN hookwire.dead_tasks.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.dead_tasks.told_at IS 'When operators were notified.';

COMMENT ON COLUMN hookwire.dead_tasks.is_unique IS 'Whether no other live task had its kind and description; NULL: enqueued before there was this mark.';

ALTER TABLE hookwire.dead_tasks ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.dead_tasks_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.deliveries (
    event_id bigint NOT NULL,
    subscription_id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    fence bigint,
    attempts integer DEFAULT 0 NOT NULL,
    last_status smallint,
    tenant text NOT NULL,
    lane text,
    last_outcome text,
    free_attempts integer DEFAULT 0 NOT NULL,
    woken_at timestamp with time zone,
    planned_at timestamp with time zone,
    replay_id bigint,
    last_seconds real,
    parked_at timestamp with time zone,
    incident_id bigint,
    member integer
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.deliveries IS 'Open deliveries: a row for each event and subscription until it is delivered or dead. open_deliveries shows its state.';

COMMENT ON COLUMN hookwire.deliveries.due_at IS 'When a claim may take the row. Waiting: not before. Claimed (fence set): the end of the lease. Blocked or parked: infinity.';

COMMENT ON COLUMN hookwire.deliveries.created_at IS 'When the fan-out made it; a parked delivery that is retried begins anew.';

COMMENT ON COLUMN hookwire.deliveries.fence IS 'The token of the current claim; NULL: not claimed. A settlement under another token changes nothing.';

COMMENT ON COLUMN hookwire.deliveries.attempts IS 'Attempts that were claimed, also one that killed its worker.';

COMMENT ON COLUMN hookwire.deliveries.last_status IS 'The status of the last answer.';

COMMENT ON COLUMN hookwire.deliveries.lane IS 'The key of an ordered subscription; only the lowest event of a lane is ever claimed. NULL: no order.';

COMMENT ON COLUMN hookwire.deliveries.last_outcome IS 'The class of the last attempt''s outcome.';

COMMENT ON COLUMN hookwire.deliveries.free_attempts IS 'Attempts outside the retry schedule: attempts - free_attempts is the place in it.';

COMMENT ON COLUMN hookwire.deliveries.woken_at IS 'WebSub: when new content woke it last.';

COMMENT ON COLUMN hookwire.deliveries.planned_at IS 'When the retry schedule goes on after an attempt out of turn; NULL: in its ordinary course.';

COMMENT ON COLUMN hookwire.deliveries.replay_id IS 'The replay that made it; 0: a single event was sent again; NULL: none.';

COMMENT ON COLUMN hookwire.deliveries.last_seconds IS 'How long the last attempt took.';

COMMENT ON COLUMN hookwire.deliveries.parked_at IS 'Since when the head of a lane waits for a decision; due_at is infinity then.';

COMMENT ON COLUMN hookwire.deliveries.incident_id IS 'The incident of its last failure; NULL: it has not failed.';

COMMENT ON COLUMN hookwire.deliveries.member IS 'The member that holds the claim; NULL: it waits for the end of its lease if its holder dies.';

CREATE TABLE hookwire.delivery_failures (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    failures integer NOT NULL,
    failures_before integer DEFAULT 0 NOT NULL,
    succeeded_at timestamp with time zone,
    settled_at timestamp with time zone[] NOT NULL,
    failed boolean[] NOT NULL,
    failing_since timestamp with time zone,
    last_outcome text,
    last_status smallint
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.delivery_failures IS 'Subscriptions that have failed lately, as all workers together count it. Most subscriptions have no row.';

COMMENT ON COLUMN hookwire.delivery_failures.failures IS 'Failures in a row, up to now.';

COMMENT ON COLUMN hookwire.delivery_failures.failures_before IS 'The same before the last settlement: tells which levels that one passed.';

COMMENT ON COLUMN hookwire.delivery_failures.succeeded_at IS 'The last success that is known.';

COMMENT ON COLUMN hookwire.delivery_failures.settled_at IS 'When the last attempts were settled, oldest first; the breaker is judged by them.';

COMMENT ON COLUMN hookwire.delivery_failures.failed IS 'Whether each of these attempts failed.';

COMMENT ON COLUMN hookwire.delivery_failures.failing_since IS 'The first failure since the last success; NULL: the last attempt succeeded.';

COMMENT ON COLUMN hookwire.delivery_failures.last_outcome IS 'Of the latest failure.';

COMMENT ON COLUMN hookwire.delivery_failures.last_status IS 'Of the latest failure.';

CREATE SEQUENCE hookwire.delivery_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.delivery_gates (
    subscription_id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT now() NOT NULL,
    trips integer DEFAULT 0 NOT NULL,
    open_until timestamp with time zone,
    failing_since timestamp with time zone
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.delivery_gates IS 'Throttles: rate limit and circuit breaker of subscriptions that have one. Each claim locks the rows that it passes.';

COMMENT ON COLUMN hookwire.delivery_gates.tokens IS 'Deliveries that the rate limit allows, as of refilled_at.';

COMMENT ON COLUMN hookwire.delivery_gates.trips IS 'How often the breaker has opened since a success; above 0 one delivery at a time passes, as a probe.';

COMMENT ON COLUMN hookwire.delivery_gates.open_until IS 'Until when the breaker lets nothing pass, or until when its probe is out.';

COMMENT ON COLUMN hookwire.delivery_gates.failing_since IS 'The first trip since a success.';

CREATE TABLE hookwire.delivery_members (
    id integer NOT NULL,
    name text NOT NULL,
    server_run text NOT NULL,
    trust_seconds double precision
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.delivery_members IS 'Processes that deliver. Each holds a session lock on its id, which nobody locks again once it is free.';

COMMENT ON COLUMN hookwire.delivery_members.id IS 'The number that the process has locked. Its claims have it.';

COMMENT ON COLUMN hookwire.delivery_members.name IS 'The name of the process.';

COMMENT ON COLUMN hookwire.delivery_members.server_run IS 'The run of the server in which it came: the timeline, the start and the last crash.';

COMMENT ON COLUMN hookwire.delivery_members.trust_seconds IS 'For so long it trusts its membership after its last answered heartbeat. NULL: it is alone, and its claims wait for their lease.';

ALTER TABLE hookwire.delivery_members ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.delivery_members_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.erased_events (
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    content bigint,
    erased_at timestamp with time zone,
    rewritten_at timestamp with time zone,
    lake_at timestamp with time zone,
    CONSTRAINT erased_events_check CHECK ((((erased_at IS NULL) = (content IS NULL)) AND ((erased_at IS NOT NULL) OR (lake_at IS NOT NULL))))
);

COMMENT ON TABLE hookwire.erased_events IS 'Events that were erased from the hub, with the hash of their former contents, and events that were erased from the lake.';

COMMENT ON COLUMN hookwire.erased_events.content IS 'hookwire.content_hash before the erasure, as a signed number; NULL: the hub has not erased it.';

COMMENT ON COLUMN hookwire.erased_events.erased_at IS 'When the hub erased it, by the clock of the database; NULL: its contents are in the hub.';

COMMENT ON COLUMN hookwire.erased_events.rewritten_at IS 'When `hookwire rewrite` had rewritten the tables, so that no file holds the freed bytes; NULL: not yet.';

COMMENT ON COLUMN hookwire.erased_events.lake_at IS 'When `hookwire pipeline erase` took it from the lake; NULL: it did not.';

CREATE SEQUENCE hookwire.event_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.events (
    id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    sinks text[] NOT NULL,
    payload bytea NOT NULL,
    erased_at timestamp with time zone,
    published_by text
)
PARTITION BY RANGE (id);

COMMENT ON TABLE hookwire.events IS 'Published events with their contents, partitioned by id. No foreign key refers to it, so that partitions can be dropped (RR-05).';

COMMENT ON COLUMN hookwire.events.id IS 'Drawn under the key''s stripe lock: ids of one key rise in commit order.';

COMMENT ON COLUMN hookwire.events.accepted_at IS 'When the publishing transaction stored the event, by the database''s clock.';

COMMENT ON COLUMN hookwire.events.ordered IS 'Whether the topic kept order when the event was accepted; then id is also the sequence.';

COMMENT ON COLUMN hookwire.events.sinks IS 'The sinks that the event was owed to at its acceptance.';

COMMENT ON COLUMN hookwire.events.payload IS 'The body as it was received; empty for a tombstone, which a header marks.';

COMMENT ON COLUMN hookwire.events.erased_at IS 'When its contents were erased; NULL: they are there.';

COMMENT ON COLUMN hookwire.events.published_by IS 'The id of the API key that published it; NULL: it came without one.';

CREATE TABLE hookwire.fanout_cursors (
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    last_subscription_id bigint NOT NULL,
    upper_subscription_id bigint NOT NULL
);

COMMENT ON TABLE hookwire.fanout_cursors IS 'Events that are fanned out in slices, because they have many subscriptions.';

COMMENT ON COLUMN hookwire.fanout_cursors.last_subscription_id IS 'Up to here deliveries are made.';

COMMENT ON COLUMN hookwire.fanout_cursors.upper_subscription_id IS 'The last subscription of the fan-out, fixed by its first slice.';

CREATE TABLE hookwire.foreign_topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    topic text NOT NULL,
    url text NOT NULL,
    self_url text,
    hub_url text,
    feed_diff boolean DEFAULT false NOT NULL,
    always_deliver boolean DEFAULT false NOT NULL,
    pings bigint DEFAULT 0 NOT NULL,
    pings_fetched bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone,
    claimed_until timestamp with time zone,
    claims bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    etag text,
    last_modified text,
    digest bytea,
    entries jsonb,
    last_status smallint,
    last_error text,
    fetched_at timestamp with time zone,
    changed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.foreign_topics IS 'Topics of other publishers: named by their URL and fetched when a publisher pings.';

COMMENT ON COLUMN hookwire.foreign_topics.url IS 'As it was first named; where it is fetched.';

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

CREATE TABLE hookwire.former_audiences (
    subscription_id bigint NOT NULL,
    until_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    topic_regex text,
    filter_path jsonpath,
    lease_until timestamp with time zone,
    number bigint NOT NULL,
    changed_xid xid8
);

COMMENT ON TABLE hookwire.former_audiences IS 'What subscriptions wanted before a change, for events up to until_id. The fan-out judges an event by its acceptance (FC-08).';

COMMENT ON COLUMN hookwire.former_audiences.until_id IS 'The last event that is judged by this row.';

COMMENT ON COLUMN hookwire.former_audiences.topic_regex IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.filter_path IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.lease_until IS 'As in subscriptions, before the change.';

COMMENT ON COLUMN hookwire.former_audiences.number IS 'Tells rows of one subscription apart.';

COMMENT ON COLUMN hookwire.former_audiences.changed_xid IS 'A transaction that began after the change. The row is kept while an older one may commit an event. NULL: not noted yet.';

ALTER TABLE hookwire.former_audiences ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.former_audiences_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.former_incarnations (
    through_id bigint NOT NULL,
    incarnation text NOT NULL,
    CONSTRAINT former_incarnations_incarnation_check CHECK ((incarnation ~ '^[a-z2-7]{8}$'::text)),
    CONSTRAINT former_incarnations_through_id_check CHECK ((through_id > 0))
);

COMMENT ON TABLE hookwire.former_incarnations IS 'The names that this installation had before.';

COMMENT ON COLUMN hookwire.former_incarnations.through_id IS 'The last event id that bears the name.';

COMMENT ON COLUMN hookwire.former_incarnations.incarnation IS 'The middle part of the public ids of these events.';

CREATE TABLE hookwire.held (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    id bigint NOT NULL,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.held IS 'Outbox records behind a hold; they are drained in order before the hold is lifted.';

COMMENT ON COLUMN hookwire.held.key IS 'As in holds.';

COMMENT ON COLUMN hookwire.held.id IS 'The id of the event.';

COMMENT ON COLUMN hookwire.held.shard IS 'As in outbox.';

COMMENT ON COLUMN hookwire.held.layout IS 'As in outbox.';

COMMENT ON COLUMN hookwire.held.grp IS 'The partition group of the hold.';

CREATE TABLE hookwire.holds (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probe_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    grp smallint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.holds IS 'Keys and topics that a sink does not carry on, because it refused a record. Their records wait in held.';

COMMENT ON COLUMN hookwire.holds.key IS 'The key that is held; empty: the whole topic.';

COMMENT ON COLUMN hookwire.holds.reason IS 'The kind of refusal.';

COMMENT ON COLUMN hookwire.holds.attempts IS 'How often the record was probed.';

COMMENT ON COLUMN hookwire.holds.since IS 'When the hold began.';

COMMENT ON COLUMN hookwire.holds.probe_at IS 'When the sink is asked again.';

COMMENT ON COLUMN hookwire.holds.id IS 'The event that was refused.';

COMMENT ON COLUMN hookwire.holds.grp IS 'The partition group, each with its own progress.';

ALTER TABLE hookwire.holds ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.holds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE hookwire.horizon
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.id_watermarks (
    day date NOT NULL,
    last_id bigint NOT NULL,
    skipped bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE hookwire.id_watermarks IS 'The last event id of each day: the rate by which partitions are made ahead.';

COMMENT ON COLUMN hookwire.id_watermarks.last_id IS 'The last event id that was drawn on that day.';

COMMENT ON COLUMN hookwire.id_watermarks.skipped IS 'Ids of that day that no event has, because the sequence was set forward.';

CREATE TABLE hookwire.idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    event_id bigint NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    ordered boolean NOT NULL,
    topic text DEFAULT ''::text NOT NULL
);

COMMENT ON TABLE hookwire.idempotency_keys IS 'Idempotency keys of publishers, each with its answer. Not partitioned, so that partitions of events can go (RR-05).';

COMMENT ON COLUMN hookwire.idempotency_keys.fingerprint IS 'A hash of the draft: another draft under the same key is a conflict.';

COMMENT ON COLUMN hookwire.idempotency_keys.ordered IS 'As in events, for the answer.';

CREATE TABLE hookwire.inbound_requests (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    source text NOT NULL,
    outcome text NOT NULL,
    arrived_at timestamp with time zone NOT NULL,
    address text NOT NULL,
    bytes integer NOT NULL,
    delivery_id text,
    event_id bigint,
    topic text,
    reason text,
    detail text,
    body bytea,
    CONSTRAINT inbound_requests_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'refused'::text])))
);

COMMENT ON TABLE hookwire.inbound_requests IS 'The last requests at each door, 20 accepted and 20 refused, for people who look for a fault.';

COMMENT ON COLUMN hookwire.inbound_requests.source IS 'The door.';

COMMENT ON COLUMN hookwire.inbound_requests.outcome IS 'accepted or refused.';

COMMENT ON COLUMN hookwire.inbound_requests.arrived_at IS 'When it was judged, by the clock of the process.';

COMMENT ON COLUMN hookwire.inbound_requests.address IS 'The address of the sender, or of the proxy before the hub.';

COMMENT ON COLUMN hookwire.inbound_requests.bytes IS 'Size of the body.';

COMMENT ON COLUMN hookwire.inbound_requests.delivery_id IS 'The delivery id of the sender; NULL before the signature was right.';

COMMENT ON COLUMN hookwire.inbound_requests.event_id IS 'The event of an accepted request; NULL for a handshake.';

COMMENT ON COLUMN hookwire.inbound_requests.topic IS 'The topic of this event.';

COMMENT ON COLUMN hookwire.inbound_requests.reason IS 'Why it was refused, in one word, as in the metrics.';

COMMENT ON COLUMN hookwire.inbound_requests.detail IS 'The same for people.';

COMMENT ON COLUMN hookwire.inbound_requests.body IS 'The beginning of a refused body.';

CREATE TABLE hookwire.inbound_secrets (
    source text NOT NULL,
    number integer NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone
);

COMMENT ON TABLE hookwire.inbound_secrets IS 'The secrets of doors, encrypted as those of subscriptions are; two at most.';

COMMENT ON COLUMN hookwire.inbound_secrets.source IS 'The door.';

COMMENT ON COLUMN hookwire.inbound_secrets.number IS 'Rises with each secret of the door.';

COMMENT ON COLUMN hookwire.inbound_secrets.key_id IS 'The key of the secret box that sealed it.';

COMMENT ON COLUMN hookwire.inbound_secrets.sealed IS 'AES-GCM ciphertext, bound to door and number.';

COMMENT ON COLUMN hookwire.inbound_secrets.expires_at IS 'When it ends, because another secret has replaced it; NULL: not at all.';

CREATE TABLE hookwire.inbound_sources (
    name text NOT NULL,
    preset text NOT NULL,
    settings jsonb NOT NULL,
    remember_seconds integer NOT NULL,
    rate_per_minute integer,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.inbound_sources IS 'Doors for webhooks that others send, by name.';

COMMENT ON COLUMN hookwire.inbound_sources.preset IS 'The sender, as presets.json names it.';

COMMENT ON COLUMN hookwire.inbound_sources.settings IS 'What replaces parts of the preset: topic, references, headers, scheme.';

COMMENT ON COLUMN hookwire.inbound_sources.remember_seconds IS 'How long delivery ids are kept: longer than this sender repeats.';

COMMENT ON COLUMN hookwire.inbound_sources.rate_per_minute IS 'Verified requests that are taken in a minute; NULL: any number.';

COMMENT ON COLUMN hookwire.inbound_sources.changed_at IS 'When its settings have changed last.';

CREATE TABLE hookwire.incident_failures (
    incident_id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    tenant text NOT NULL,
    failures integer NOT NULL,
    last_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE hookwire.incident_failures IS 'Failed attempts of an incident by minute; folded into incidents after two hours.';

COMMENT ON COLUMN hookwire.incident_failures.incident_id IS 'The incident. None is deleted while it has such rows.';

COMMENT ON COLUMN hookwire.incident_failures.minute IS 'The minute of the database''s clock in which they were stored.';

COMMENT ON COLUMN hookwire.incident_failures.failures IS 'The number of failed attempts.';

COMMENT ON COLUMN hookwire.incident_failures.last_at IS 'When the last of them was stored.';

ALTER TABLE hookwire.incidents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.incidents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.installation (
    singleton boolean DEFAULT true NOT NULL,
    incarnation text NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    topics_auto_create boolean DEFAULT true NOT NULL,
    sql_notify boolean DEFAULT true NOT NULL,
    payload_bytes_max integer DEFAULT 1048576 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    queues_auto_create boolean DEFAULT true NOT NULL,
    kinds_auto_create boolean DEFAULT true NOT NULL,
    services_auto_create boolean DEFAULT true NOT NULL,
    server text,
    names_per_key_max integer DEFAULT 10000 NOT NULL,
    names_max integer DEFAULT 100000 NOT NULL,
    CONSTRAINT installation_incarnation_check CHECK ((incarnation ~ '^[a-z2-7]{8}$'::text)),
    CONSTRAINT installation_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.installation IS 'One row: what makes this installation itself, and what its publishing functions need of the settings.';

COMMENT ON COLUMN hookwire.installation.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.installation.incarnation IS 'Eight characters drawn when the database was made; part of each public event id.';

COMMENT ON COLUMN hookwire.installation.layout IS 'The number of the current layout of shards and partition groups.';

COMMENT ON COLUMN hookwire.installation.topics_auto_create IS 'Whether a first publish creates its topic.';

COMMENT ON COLUMN hookwire.installation.sql_notify IS 'Whether hookwire.publish sends NOTIFY (RR-15).';

COMMENT ON COLUMN hookwire.installation.queues_auto_create IS 'Whether a first message creates its queue.';

COMMENT ON COLUMN hookwire.installation.kinds_auto_create IS 'Whether a first job creates its kind.';

COMMENT ON COLUMN hookwire.installation.services_auto_create IS 'Whether a first request creates its service.';

COMMENT ON COLUMN hookwire.installation.server IS 'Where numbers were drawn last: cluster, timeline, database and table. Elsewhere all sequences are set forward.';

COMMENT ON COLUMN hookwire.installation.names_per_key_max IS 'How many topics an API key may make by using them; the same for queues and for services.';

COMMENT ON COLUMN hookwire.installation.names_max IS 'How many topics all callers together may make by using them; the same for queues and for services.';

CREATE TABLE hookwire.intents (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    mode text NOT NULL,
    topic text NOT NULL,
    topic_url text NOT NULL,
    callback text NOT NULL,
    callback_host text NOT NULL,
    identity bytea NOT NULL,
    lease_seconds bigint,
    signature_method text NOT NULL,
    verify_token text,
    key_id text,
    sealed bytea,
    state text DEFAULT 'requested'::text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_at timestamp with time zone,
    stage text DEFAULT 'verify'::text NOT NULL,
    stage_from integer DEFAULT 0 NOT NULL,
    denial text,
    requester text,
    verify text,
    permanent boolean DEFAULT false NOT NULL,
    rabbithub jsonb,
    requester_network text,
    CONSTRAINT intents_check CHECK (((key_id IS NULL) = (sealed IS NULL))),
    CONSTRAINT intents_identity_check CHECK ((length(identity) = 32)),
    CONSTRAINT intents_lease_check CHECK (((lease_seconds IS NULL) = ((mode = 'unsubscribe'::text) OR (stage = 'deny'::text)))),
    CONSTRAINT intents_mode_check CHECK ((mode = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text]))),
    CONSTRAINT intents_stage_check CHECK ((stage = ANY (ARRAY['validate'::text, 'verify'::text, 'deny'::text]))),
    CONSTRAINT intents_state_check CHECK ((state = ANY (ARRAY['requested'::text, 'verifying'::text, 'verified'::text, 'failed'::text, 'superseded'::text, 'denied'::text]))),
    CONSTRAINT intents_verify_check CHECK ((verify = ANY (ARRAY['sync'::text, 'async'::text])))
);

COMMENT ON TABLE hookwire.intents IS 'WebSub requests to subscribe or unsubscribe, until they are decided and for a day after.';

COMMENT ON COLUMN hookwire.intents.mode IS 'subscribe or unsubscribe.';

COMMENT ON COLUMN hookwire.intents.topic_url IS 'The topic''s URL as the request named it.';

COMMENT ON COLUMN hookwire.intents.callback_host IS 'For limits that count by host.';

COMMENT ON COLUMN hookwire.intents.identity IS 'SHA-256 of topic and callback, as in subscriptions.';

COMMENT ON COLUMN hookwire.intents.verify_token IS 'PubSubHubbub 0.3: the token that is echoed.';

COMMENT ON COLUMN hookwire.intents.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.intents.sealed IS 'The subscriber''s secret, encrypted.';

COMMENT ON COLUMN hookwire.intents.state IS 'requested, verifying, verified, failed, superseded or denied.';

COMMENT ON COLUMN hookwire.intents.due_at IS 'When the next step is made; while a step is under way, the end of its lease.';

COMMENT ON COLUMN hookwire.intents.stage IS 'The next step: ask the publisher (validate), ask the callback (verify), or tell it no (deny).';

COMMENT ON COLUMN hookwire.intents.stage_from IS 'How many attempts had been made when the current step began.';

COMMENT ON COLUMN hookwire.intents.denial IS 'Why it is denied.';

COMMENT ON COLUMN hookwire.intents.requester IS 'Who sent the request: a key or an account.';

COMMENT ON COLUMN hookwire.intents.verify IS 'PubSubHubbub 0.3: sync or async.';

COMMENT ON COLUMN hookwire.intents.permanent IS 'Whether the request named no lease (PubSubHubbub 0.3).';

COMMENT ON COLUMN hookwire.intents.rabbithub IS 'What a verified request makes in RabbitHub; NULL: a WebSub subscription.';

COMMENT ON COLUMN hookwire.intents.requester_network IS 'As in subscriptions.';

ALTER TABLE hookwire.intents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.intents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.job_rates (
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    tokens double precision NOT NULL,
    counted_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.job_rates IS 'Tokens of the rate limits of jobs: one row for a limited key, written under the lock of its kind.';

COMMENT ON COLUMN hookwire.job_rates.tokens IS 'As of counted_at.';

COMMENT ON COLUMN hookwire.job_rates.counted_at IS 'When the tokens were counted last.';

CREATE TABLE hookwire.job_requests (
    number bigint NOT NULL,
    job_id uuid NOT NULL,
    requester text,
    callbacks jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.job_requests IS 'Callbacks of requests that enqueued a job, or merged with one.';

COMMENT ON COLUMN hookwire.job_requests.number IS 'The order of the requests.';

COMMENT ON COLUMN hookwire.job_requests.requester IS 'The key or role that asked.';

COMMENT ON COLUMN hookwire.job_requests.callbacks IS 'The kinds of the jobs that follow each end of the job.';

ALTER TABLE hookwire.job_requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.job_requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.job_schedules (
    name text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT 'default'::text NOT NULL,
    cron text NOT NULL,
    zone text DEFAULT 'UTC'::text NOT NULL,
    missed text DEFAULT 'coalesce'::text NOT NULL,
    job jsonb NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT job_schedules_missed_check CHECK ((missed = ANY (ARRAY['skip'::text, 'coalesce'::text, 'catch_up'::text]))),
    CONSTRAINT job_schedules_name_check CHECK (hookwire.is_queue_name(name))
);

COMMENT ON TABLE hookwire.job_schedules IS 'Schedules that enqueue jobs by a cron expression.';

COMMENT ON COLUMN hookwire.job_schedules.cron IS 'The cron expression.';

COMMENT ON COLUMN hookwire.job_schedules.zone IS 'The time zone in which it is read.';

COMMENT ON COLUMN hookwire.job_schedules.missed IS 'What happens to times that were missed: skip, coalesce or catch_up.';

COMMENT ON COLUMN hookwire.job_schedules.job IS 'The draft that is enqueued.';

COMMENT ON COLUMN hookwire.job_schedules.next_at IS 'The next time.';

COMMENT ON COLUMN hookwire.job_schedules.last_at IS 'The last time that was enqueued.';

CREATE VIEW hookwire.job_statistics AS
 SELECT kind,
    state,
    COALESCE(performer, ended_by) AS performer,
    count(*) AS jobs,
    avg(EXTRACT(epoch FROM (claimed_at - created_at))) AS wait_seconds,
    avg(EXTRACT(epoch FROM (ended_at - claimed_at))) AS run_seconds,
    avg(EXTRACT(epoch FROM (ended_at - created_at))) AS total_seconds,
    avg(attempts) AS attempts
   FROM hookwire.job_archive a
  GROUP BY kind, state, COALESCE(performer, ended_by);

COMMENT ON VIEW hookwire.job_statistics IS 'Jobs by kind and state, with their ages.';

CREATE VIEW hookwire.job_trail AS
 SELECT (subject)::uuid AS job_id,
    at,
    actor,
    substr(action, 5) AS verb,
    reason
   FROM hookwire.audit a
  WHERE (starts_with(action, 'job.'::text) AND (subject ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'::text));

COMMENT ON VIEW hookwire.job_trail IS 'What happened to each job, from its audit records.';

ALTER TABLE hookwire.jobs ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.jobs_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.kept_answers (
    tenant text NOT NULL,
    caller text NOT NULL,
    path text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    status smallint NOT NULL,
    headers text[] NOT NULL,
    body bytea NOT NULL,
    answered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.kept_answers IS 'Answers of the HTTP API by Idempotency-Key, committed with what the request made.';

COMMENT ON COLUMN hookwire.kept_answers.caller IS 'Id of the API key that sent the request; empty without one.';

COMMENT ON COLUMN hookwire.kept_answers.path IS 'Path as it was sent: a key counts for its caller and path.';

COMMENT ON COLUMN hookwire.kept_answers.fingerprint IS 'A hash of the request: another request with the same key is a conflict.';

COMMENT ON COLUMN hookwire.kept_answers.headers IS 'Names and values by turns.';

COMMENT ON COLUMN hookwire.kept_answers.body IS 'The body, without a secret that is shown once.';

CREATE TABLE hookwire.lake_audits (
    lake text NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    until_at timestamp with time zone,
    exit_code smallint,
    findings bigint,
    not_compared bigint,
    has_contents boolean DEFAULT false NOT NULL,
    failed_at timestamp with time zone,
    failure_code smallint,
    failure text
);

COMMENT ON TABLE hookwire.lake_audits IS 'How the last audit of all hours of a lake ended.';

COMMENT ON COLUMN hookwire.lake_audits.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_audits.noted_at IS 'When the first audit of the lake began.';

COMMENT ON COLUMN hookwire.lake_audits.started_at IS 'When the first of the audits began that have not ended; NULL: the last one has ended.';

COMMENT ON COLUMN hookwire.lake_audits.ended_at IS 'When the last audit that judged the lake ended; NULL: none has.';

COMMENT ON COLUMN hookwire.lake_audits.until_at IS 'The end of the hours that it judged.';

COMMENT ON COLUMN hookwire.lake_audits.exit_code IS 'Its exit code: 0 all compared, 1 findings, 2 not all compared.';

COMMENT ON COLUMN hookwire.lake_audits.findings IS 'The number of its findings.';

COMMENT ON COLUMN hookwire.lake_audits.not_compared IS 'How many things it could not compare or confirm.';

COMMENT ON COLUMN hookwire.lake_audits.has_contents IS 'Whether it compared all contents.';

COMMENT ON COLUMN hookwire.lake_audits.failed_at IS 'When an audit failed; NULL: none has failed since the lake was judged.';

COMMENT ON COLUMN hookwire.lake_audits.failure_code IS 'The exit code of that audit.';

COMMENT ON COLUMN hookwire.lake_audits.failure IS 'Why it failed.';

CREATE TABLE hookwire.lake_backlog (
    tenant text NOT NULL,
    at timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    waiting bigint NOT NULL,
    oldest_seconds double precision NOT NULL
);

COMMENT ON TABLE hookwire.lake_backlog IS 'Gold table of the lake: deliveries that waited, by topic and subscription.';

COMMENT ON COLUMN hookwire.lake_backlog.at IS 'The moment of the count.';

COMMENT ON COLUMN hookwire.lake_backlog.waiting IS 'Deliveries that waited.';

COMMENT ON COLUMN hookwire.lake_backlog.oldest_seconds IS 'The age of the oldest of them.';

CREATE TABLE hookwire.lake_batches (
    job text NOT NULL,
    batch text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.lake_batches IS 'Batches of the lake that are in the gold tables: a batch that is here is not stored again.';

COMMENT ON COLUMN hookwire.lake_batches.job IS 'The job of the lake that made the batch.';

COMMENT ON COLUMN hookwire.lake_batches.batch IS 'The batch''s name in the lake.';

CREATE TABLE hookwire.lake_bounds (
    lake text NOT NULL,
    topic text NOT NULL,
    first_day date NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.lake_bounds IS 'The first day that `hookwire pipeline retain` kept of the archived events of a lake.';

COMMENT ON COLUMN hookwire.lake_bounds.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_bounds.topic IS 'The topic in Kafka; empty: all topics.';

COMMENT ON COLUMN hookwire.lake_bounds.first_day IS 'Earlier days were deleted.';

COMMENT ON COLUMN hookwire.lake_bounds.noted_at IS 'When the bound was noted.';

CREATE TABLE hookwire.lake_marks (
    lake text NOT NULL,
    table_name text NOT NULL,
    version bigint NOT NULL,
    number bigint NOT NULL,
    commit_id text NOT NULL,
    digest text NOT NULL,
    marked_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.lake_marks IS 'The newest commit that each table of a lake had after a job of hookwire.';

COMMENT ON COLUMN hookwire.lake_marks.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_marks.table_name IS 'The table of the lake, such as bronze.';

COMMENT ON COLUMN hookwire.lake_marks.version IS 'The number of the commit in the table''s log.';

COMMENT ON COLUMN hookwire.lake_marks.number IS 'The number of the newest commit of hookwire.';

COMMENT ON COLUMN hookwire.lake_marks.commit_id IS 'The id in the commit; empty if another tool made it.';

COMMENT ON COLUMN hookwire.lake_marks.digest IS 'SHA-256 over the bytes of the commit.';

COMMENT ON COLUMN hookwire.lake_marks.marked_at IS 'When the mark was stored.';

CREATE TABLE hookwire.lake_metrics (
    tenant text NOT NULL,
    hour timestamp with time zone NOT NULL,
    topic text NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    retries bigint NOT NULL,
    dead bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p95_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    tries_to_success double precision,
    oldest_seconds double precision
);

COMMENT ON TABLE hookwire.lake_metrics IS 'Gold table of the lake: attempts by hour, topic and subscription.';

COMMENT ON COLUMN hookwire.lake_metrics.subscription IS 'The public id.';

COMMENT ON COLUMN hookwire.lake_metrics.attempts IS 'Attempts in the hour.';

COMMENT ON COLUMN hookwire.lake_metrics.delivered IS 'Attempts that succeeded.';

COMMENT ON COLUMN hookwire.lake_metrics.retries IS 'Attempts after the first of their delivery.';

COMMENT ON COLUMN hookwire.lake_metrics.dead IS 'Deliveries that were given up.';

COMMENT ON COLUMN hookwire.lake_metrics.p50_seconds IS 'The median of the attempts'' durations.';

COMMENT ON COLUMN hookwire.lake_metrics.p95_seconds IS 'The 95th percentile.';

COMMENT ON COLUMN hookwire.lake_metrics.p99_seconds IS 'The 99th percentile.';

COMMENT ON COLUMN hookwire.lake_metrics.tries_to_success IS 'The mean number of the attempt that delivered; NULL: nothing was delivered.';

COMMENT ON COLUMN hookwire.lake_metrics.oldest_seconds IS 'How long the event that had waited longest had waited.';

CREATE TABLE hookwire.lake_proofs (
    lake text NOT NULL,
    day date NOT NULL,
    topic text NOT NULL,
    digest text NOT NULL,
    records bigint NOT NULL,
    unproved integer NOT NULL,
    proved_at timestamp with time zone DEFAULT now() NOT NULL,
    unsealed bigint DEFAULT 0 NOT NULL,
    files text[]
);

COMMENT ON TABLE hookwire.lake_proofs IS 'Days of the lake that an audit has compared without a finding.';

COMMENT ON COLUMN hookwire.lake_proofs.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_proofs.day IS 'The day in UTC in which the events were accepted.';

COMMENT ON COLUMN hookwire.lake_proofs.topic IS 'The topic in Kafka.';

COMMENT ON COLUMN hookwire.lake_proofs.digest IS 'SHA-256 over the bytes of the day''s files, its cells of the ledger and the audit''s options.';

COMMENT ON COLUMN hookwire.lake_proofs.records IS 'Records of the day in the lake.';

COMMENT ON COLUMN hookwire.lake_proofs.unproved IS 'Cells whose contents could not be compared.';

COMMENT ON COLUMN hookwire.lake_proofs.proved_at IS 'When the digest was stored.';

COMMENT ON COLUMN hookwire.lake_proofs.unsealed IS 'Records of the day whose columns no seal proves.';

COMMENT ON COLUMN hookwire.lake_proofs.files IS 'The day''s files: table, path, and a hash of the bytes and of the log''s words, for when the ledger has dropped its hours.
NULL: of an older version.';

CREATE TABLE hookwire.lake_seals (
    lake text NOT NULL,
    sealed_from timestamp with time zone NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL,
    unproved bigint,
    seal_key text
);

COMMENT ON TABLE hookwire.lake_seals IS 'The time from which the archived events of a lake have seals.';

COMMENT ON COLUMN hookwire.lake_seals.lake IS 'The URI of the lake.';

COMMENT ON COLUMN hookwire.lake_seals.sealed_from IS 'A record of an event that was accepted later has a seal.';

COMMENT ON COLUMN hookwire.lake_seals.noted_at IS 'When an archive, an audit or a person noted it.';

COMMENT ON COLUMN hookwire.lake_seals.unproved IS 'At most so many records have no seal that proves them; null: unknown.';

COMMENT ON COLUMN hookwire.lake_seals.seal_key IS 'The name of the newest key that sealed records here; null: unknown.';

CREATE TABLE hookwire.lake_slo (
    tenant text NOT NULL,
    day date NOT NULL,
    subscription text NOT NULL,
    attempts bigint NOT NULL,
    delivered bigint NOT NULL,
    share double precision NOT NULL,
    target double precision NOT NULL,
    burn double precision NOT NULL
);

COMMENT ON TABLE hookwire.lake_slo IS 'Gold table of the lake: service levels by day and subscription.';

COMMENT ON COLUMN hookwire.lake_slo.subscription IS 'The public id; empty: all of the tenant''s together.';

COMMENT ON COLUMN hookwire.lake_slo.attempts IS 'Attempts in the 28 days.';

COMMENT ON COLUMN hookwire.lake_slo.delivered IS 'Attempts that delivered.';

COMMENT ON COLUMN hookwire.lake_slo.share IS 'The share of attempts that delivered, over 28 days.';

COMMENT ON COLUMN hookwire.lake_slo.target IS 'The share that is promised.';

COMMENT ON COLUMN hookwire.lake_slo.burn IS 'The part of the error budget that is used up; above 1 it is exceeded.';

CREATE SEQUENCE hookwire.lease_fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.ledger (
    sink text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL,
    topic text NOT NULL,
    hour timestamp with time zone NOT NULL,
    bucket smallint NOT NULL,
    owed_count bigint DEFAULT 0 NOT NULL,
    owed_sum numeric(20,0) DEFAULT 0 NOT NULL,
    owed_min bigint,
    owed_max bigint,
    sent_count bigint DEFAULT 0 NOT NULL,
    dead_count bigint DEFAULT 0 NOT NULL,
    settled_sum numeric(20,0) DEFAULT 0 NOT NULL,
    settled_min bigint,
    settled_max bigint,
    owed_content numeric(20,0) DEFAULT 0 NOT NULL,
    content_count bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70');

COMMENT ON TABLE hookwire.ledger IS 'How many events were accepted for each sink and how many left the outbox, with checksums that need no order.';

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

CREATE TABLE hookwire.ledger_cursor (
    singleton boolean DEFAULT true NOT NULL,
    since_at timestamp with time zone NOT NULL,
    through_id bigint NOT NULL,
    through_at timestamp with time zone NOT NULL,
    mark_id bigint,
    mark_at timestamp with time zone,
    mark_xid xid8,
    CONSTRAINT ledger_cursor_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.ledger_cursor IS 'How far events are folded into the ledger.';

COMMENT ON COLUMN hookwire.ledger_cursor.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.ledger_cursor.since_at IS 'Hours that began before are not judged.';

COMMENT ON COLUMN hookwire.ledger_cursor.through_id IS 'Events up to this id are folded.';

COMMENT ON COLUMN hookwire.ledger_cursor.through_at IS 'When that id was the last one drawn.';

COMMENT ON COLUMN hookwire.ledger_cursor.mark_id IS 'The id that is folded to next, once no transaction before mark_xid runs.';

COMMENT ON COLUMN hookwire.ledger_cursor.mark_xid IS 'The transaction id that was drawn after mark_id.';

CREATE TABLE hookwire.ledger_entries (
    id bigint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL,
    ids bigint[] NOT NULL,
    CONSTRAINT ledger_entries_outcome_check CHECK ((outcome = ANY (ARRAY['sent'::text, 'dead'::text, 'revived'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY hookwire.ledger_entries ALTER COLUMN ids SET STORAGE MAIN;

COMMENT ON TABLE hookwire.ledger_entries IS 'What left the outbox: one row for each batch, written in the statement that deletes, folded into the ledger later.';

COMMENT ON COLUMN hookwire.ledger_entries.outcome IS 'sent, dead or revived.';

COMMENT ON COLUMN hookwire.ledger_entries.ids IS 'The events of the batch.';

ALTER TABLE hookwire.ledger_entries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.ledger_entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.message_archive (
    id bigint NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    deliveries integer NOT NULL,
    priority smallint NOT NULL,
    receiver text,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.message_archive IS 'Accepted messages of queues that keep history.';

COMMENT ON COLUMN hookwire.message_archive.deliveries IS 'How often it was handed to a receiver.';

COMMENT ON COLUMN hookwire.message_archive.receiver IS 'The client that accepted it.';

COMMENT ON COLUMN hookwire.message_archive.type IS 'As in messages.';

CREATE SEQUENCE hookwire.message_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE hookwire.message_log (
    tenant text DEFAULT 'default'::text NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    xid xid8 NOT NULL,
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    priority smallint NOT NULL,
    type text,
    key text,
    content_type text,
    headers jsonb NOT NULL,
    payload bytea NOT NULL
);

COMMENT ON TABLE hookwire.message_log IS 'Copies: an append-only log that durable consumers read.';

COMMENT ON COLUMN hookwire.message_log.xid IS 'The transaction that submitted it: with id the place in the log.';

COMMENT ON COLUMN hookwire.message_log.type IS 'As in messages.';

CREATE VIEW hookwire.message_queue AS
 SELECT NULL::bigint AS id,
    NULL::text AS queue,
    NULL::text AS payload,
    NULL::bytea AS payload_bytes,
    NULL::text AS content_type,
    NULL::jsonb AS headers,
    NULL::text AS type,
    NULL::text AS key,
    NULL::integer AS priority,
    NULL::double precision AS delay_seconds
  WHERE false;

COMMENT ON VIEW hookwire.message_queue IS 'INSERT here to submit messages in your transaction; see docs/reference/sql.md';

CREATE TABLE hookwire.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.migrations IS 'Migrations that were applied, with checksums: a database with another history is refused.';

COMMENT ON COLUMN hookwire.migrations.version IS 'The number in the file''s name.';

COMMENT ON COLUMN hookwire.migrations.checksum IS 'SHA-256 of the file.';

CREATE TABLE hookwire.number_marks (
    sequence text NOT NULL COLLATE pg_catalog."C",
    last_number bigint NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.number_marks IS 'The greatest number of each sequence, noted every minute. Rows that had it may be gone.';

COMMENT ON COLUMN hookwire.number_marks.sequence IS 'The name of the sequence.';

COMMENT ON COLUMN hookwire.number_marks.last_number IS 'Never falls.';

CREATE VIEW hookwire.open_deliveries AS
 SELECT event_id,
    subscription_id,
    tenant,
    lane,
    created_at,
    attempts,
    free_attempts,
    replay_id,
    fence,
    last_outcome,
    last_status,
    last_seconds,
    parked_at,
        CASE
            WHEN (parked_at IS NOT NULL) THEN 'parked'::text
            WHEN (fence IS NOT NULL) THEN 'claimed'::text
            WHEN (due_at = 'infinity'::timestamp with time zone) THEN 'blocked'::text
            ELSE 'waiting'::text
        END AS state,
        CASE
            WHEN ((fence IS NULL) AND (due_at <> 'infinity'::timestamp with time zone)) THEN due_at
            ELSE NULL::timestamp with time zone
        END AS available_at,
        CASE
            WHEN (fence IS NOT NULL) THEN due_at
            ELSE NULL::timestamp with time zone
        END AS lease_until
   FROM hookwire.deliveries d;

COMMENT ON VIEW hookwire.open_deliveries IS 'Open deliveries with an explicit state: waiting (from available_at on), claimed (until lease_until), blocked or parked.';

COMMENT ON COLUMN hookwire.open_deliveries.state IS 'waiting, claimed, blocked (behind an earlier event of its lane) or parked (waits for a decision).';

COMMENT ON COLUMN hookwire.open_deliveries.available_at IS 'Waiting: no attempt before; NULL in other states.';

COMMENT ON COLUMN hookwire.open_deliveries.lease_until IS 'Claimed: when another worker may claim it; NULL in other states.';

CREATE TABLE hookwire.outbox (
    id bigint NOT NULL,
    layout smallint NOT NULL,
    shard smallint NOT NULL,
    sink text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_threshold='-1', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='100000');

COMMENT ON TABLE hookwire.outbox IS 'What each sink is still owed: one row for each event and sink, deleted when the sink has confirmed it.';

COMMENT ON COLUMN hookwire.outbox.id IS 'The id of the event.';

COMMENT ON COLUMN hookwire.outbox.layout IS 'The layout under which the shard was computed.';

COMMENT ON COLUMN hookwire.outbox.shard IS 'One of 64 parts of the key space; of an event without a key, a part by its id.';

CREATE TABLE hookwire.outbox_offsets (
    outbox text NOT NULL,
    place bigint NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.outbox_offsets IS 'How far the rows of an append-only outbox table of others were sent.';

COMMENT ON COLUMN hookwire.outbox_offsets.outbox IS 'The table, quoted as PostgreSQL quotes it.';

COMMENT ON COLUMN hookwire.outbox_offsets.place IS 'The offset of the last row that was sent, with all before it. A person may set it.';

COMMENT ON COLUMN hookwire.outbox_offsets.moved_at IS 'When a row was sent last.';

CREATE TABLE hookwire.process_states (
    process text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT process_states_kind_check CHECK ((kind = ANY (ARRAY['sink'::text, 'source'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.process_states IS 'Sinks and sources as the processes that carry them report them.';

COMMENT ON COLUMN hookwire.process_states.process IS 'Id of the process that reports.';

COMMENT ON COLUMN hookwire.process_states.kind IS 'sink, or source: an AMQP queue whose messages become events.';

COMMENT ON COLUMN hookwire.process_states.reason IS 'The last error while it does not work; else empty.';

COMMENT ON COLUMN hookwire.process_states.since IS 'When this state began.';

COMMENT ON COLUMN hookwire.process_states.until IS 'When the process counts as gone unless it has reported again.';

ALTER TABLE hookwire.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE hookwire.rabbithub_resources ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.rabbithub_resources_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.rabbithub_subscriptions (
    subscription_id bigint NOT NULL,
    resource_id bigint NOT NULL,
    hub_topic text NOT NULL,
    lease_seconds bigint NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue_id bigint,
    error_count bigint DEFAULT 0 NOT NULL,
    first_error_at timestamp with time zone,
    last_error_at timestamp with time zone,
    last_error text,
    window_from timestamp with time zone,
    window_errors bigint DEFAULT 0 NOT NULL,
    told_until timestamp with time zone
);

COMMENT ON TABLE hookwire.rabbithub_subscriptions IS 'RabbitHub: what a subscription to an exchange or a queue has beside the common columns.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.resource_id IS 'The exchange or queue.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.hub_topic IS 'The routing pattern as it was asked for.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.details IS 'contact, ha_mode and max_tps, as they were given.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.queue_id IS 'Of a binding: the queue that gets the messages.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.error_count IS 'Failed deliveries since it began.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_from IS 'When the current window of the error policy began.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.window_errors IS 'Failed deliveries in that window.';

COMMENT ON COLUMN hookwire.rabbithub_subscriptions.told_until IS 'The end of the lease that operators were notified of.';

CREATE TABLE hookwire.readiness (
    singleton boolean DEFAULT true NOT NULL,
    written_at timestamp with time zone NOT NULL,
    CONSTRAINT readiness_singleton_check CHECK (singleton)
);

COMMENT ON TABLE hookwire.readiness IS 'One row that the readiness check changes, to see that the server can write (FC-06).';

COMMENT ON COLUMN hookwire.readiness.singleton IS 'Always true: there is one row.';

COMMENT ON COLUMN hookwire.readiness.written_at IS 'When the check wrote last.';

CREATE VIEW hookwire.receivers AS
 SELECT s.id,
    s.tenant,
    s.public_id,
    s.protocol,
    s.topic,
    s.callback,
        CASE
            WHEN s.drains THEN 'active'::text
            ELSE s.state
        END AS subscription_state,
    s.state_reason,
    s.lease_until,
    s.paused_until,
        CASE
            WHEN (g.trips > 0) THEN g.open_until
            ELSE NULL::timestamp with time zone
        END AS breaker_until,
        CASE
            WHEN (s.rate_per_second IS NOT NULL) THEN (now() + make_interval(secs => GREATEST((0)::double precision, (((1)::double precision - LEAST(COALESCE((s.rate_burst)::double precision, GREATEST(ceil(s.rate_per_second), (1)::double precision)), (g.tokens + ((EXTRACT(epoch FROM (now() - g.refilled_at)))::double precision * s.rate_per_second)))) / s.rate_per_second))))
            ELSE NULL::timestamp with time zone
        END AS rate_until,
    f.failing_since,
    f.last_outcome AS failure_outcome,
    f.last_status AS failure_status,
    now() AS now,
    ( SELECT count(*) AS count
           FROM ( SELECT
                   FROM hookwire.deliveries d
                  WHERE (d.subscription_id = s.id)
                  ORDER BY d.due_at, d.event_id
                 LIMIT 1000) few) AS waiting,
    ( SELECT NULLIF(d.due_at, 'infinity'::timestamp with time zone) AS "nullif"
           FROM hookwire.deliveries d
          WHERE (d.subscription_id = s.id)
          ORDER BY d.due_at
         LIMIT 1) AS next_due_at,
    GREATEST(f.succeeded_at, ( SELECT max(a.started_at) AS max
           FROM ( SELECT x.started_at,
                    x.decision
                   FROM hookwire.attempts x
                  WHERE (x.subscription_id = s.id)
                  ORDER BY x.event_id DESC
                 LIMIT 20) a
          WHERE (a.decision = 'delivered'::text))) AS last_success_at,
    ( SELECT (d.fence IS NOT NULL)
           FROM hookwire.deliveries d
          WHERE (d.subscription_id = s.id)
          ORDER BY d.due_at
         LIMIT 1) AS next_is_claimed,
    LEAST(( SELECT min(d.created_at) AS min
           FROM ( SELECT x.created_at
                   FROM hookwire.deliveries x
                  WHERE (x.subscription_id = s.id)
                  ORDER BY x.due_at, x.event_id
                 LIMIT 10) d), ( SELECT d.created_at
           FROM hookwire.deliveries d
          WHERE ((d.subscription_id = s.id) AND (d.due_at = 'infinity'::timestamp with time zone))
          ORDER BY d.due_at, d.event_id
         LIMIT 1)) AS waiting_since,
    ( SELECT avg(a.total_seconds) AS avg
           FROM ( SELECT x.total_seconds
                   FROM hookwire.attempts x
                  WHERE (x.subscription_id = s.id)
                  ORDER BY x.event_id DESC
                 LIMIT 20) a) AS answer_seconds,
    s.drains
   FROM ((hookwire.subscriptions s
     LEFT JOIN hookwire.delivery_gates g ON ((g.subscription_id = s.id)))
     LEFT JOIN hookwire.delivery_failures f ON ((f.subscription_id = s.id)));

COMMENT ON VIEW hookwire.receivers IS 'Subscriptions with all that decides when they are sent to next: lease, pause, breaker, rate limit, failures.';

CREATE TABLE hookwire.relay_batches (
    sink text NOT NULL COLLATE pg_catalog."C",
    layout smallint NOT NULL,
    grp smallint NOT NULL,
    batch_no bigint NOT NULL,
    shards smallint[] NOT NULL,
    ids bigint[] NOT NULL
);

COMMENT ON TABLE hookwire.relay_batches IS 'Manifests: the records of each Kafka batch, stored before the batch is committed.';

COMMENT ON COLUMN hookwire.relay_batches.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_batches.batch_no IS 'The number that the batch carries into Kafka''s transaction.';

COMMENT ON COLUMN hookwire.relay_batches.shards IS 'The shard of each record, in the order of ids.';

COMMENT ON COLUMN hookwire.relay_batches.ids IS 'The events of the batch.';

CREATE TABLE hookwire.relay_dead_letters (
    sink text NOT NULL COLLATE pg_catalog."C",
    event_id bigint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    key text,
    shard smallint NOT NULL,
    layout smallint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    on_purpose boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE hookwire.relay_dead_letters IS 'Records of Kafka and AMQP that were given up. They keep their place in the outbox''s order.';

COMMENT ON COLUMN hookwire.relay_dead_letters.shard IS 'As in outbox.';

COMMENT ON COLUMN hookwire.relay_dead_letters.layout IS 'As in outbox.';

COMMENT ON COLUMN hookwire.relay_dead_letters.reason IS 'The kind of refusal.';

COMMENT ON COLUMN hookwire.relay_dead_letters.on_purpose IS 'Whether a person gave it up.';

CREATE TABLE hookwire.relay_members (
    id integer NOT NULL,
    name text NOT NULL,
    sinks text[] NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.relay_members IS 'Relay processes that are alive. Each holds a session lock on its id.';

COMMENT ON COLUMN hookwire.relay_members.id IS 'The number that the process has locked.';

COMMENT ON COLUMN hookwire.relay_members.sinks IS 'The sinks for which it stands as a candidate.';

COMMENT ON COLUMN hookwire.relay_members.until IS 'When it counts as dead unless it has sent another heartbeat.';

ALTER TABLE hookwire.relay_members ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.relay_members_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.relay_terms (
    sink text NOT NULL COLLATE pg_catalog."C",
    grp smallint NOT NULL,
    layout smallint DEFAULT 1 NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    owner text,
    lease_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    batch_no bigint DEFAULT 0 NOT NULL,
    member integer,
    is_open boolean DEFAULT true NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.relay_terms IS 'Leadership of each sink and partition group: the lease and the term that fences former leaders (RR-08).';

COMMENT ON COLUMN hookwire.relay_terms.grp IS 'The partition group.';

COMMENT ON COLUMN hookwire.relay_terms.layout IS 'The layout of the group''s current leader.';

COMMENT ON COLUMN hookwire.relay_terms.term IS 'Rises with each change of leader; each deciding write locks the row with the term that it expects.';

COMMENT ON COLUMN hookwire.relay_terms.owner IS 'The name of the process that leads.';

COMMENT ON COLUMN hookwire.relay_terms.lease_until IS 'When another process may take over.';

COMMENT ON COLUMN hookwire.relay_terms.batch_no IS 'The last batch number when the term began; relay_batch_numbers counts on from there.';

COMMENT ON COLUMN hookwire.relay_terms.member IS 'The relay process that holds the lease.';

COMMENT ON COLUMN hookwire.relay_terms.is_open IS 'False: the lease cannot be acquired, because the layout changes.';

CREATE TABLE hookwire.replays (
    id bigint NOT NULL,
    tenant text NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    source text NOT NULL,
    subscription_id bigint,
    topic text,
    kinds text[],
    statuses smallint[],
    event_ids bigint[],
    since_at timestamp with time zone,
    until_at timestamp with time zone,
    rate_per_second integer,
    actor text NOT NULL,
    reason text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    lower_event_id bigint NOT NULL,
    last_event_id bigint NOT NULL,
    last_subscription_id bigint DEFAULT 0 NOT NULL,
    upper_event_id bigint NOT NULL,
    examined bigint DEFAULT 0 NOT NULL,
    replayed bigint DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    erased bigint DEFAULT 0 NOT NULL,
    act text DEFAULT 'send'::text NOT NULL,
    job_kind text,
    job_state text,
    last_seq bigint DEFAULT 0 NOT NULL,
    upper_seq bigint DEFAULT 0 NOT NULL,
    incident_id bigint,
    incident_due_at timestamp with time zone,
    missed boolean DEFAULT false NOT NULL,
    CONSTRAINT replays_act_check CHECK ((((source = ANY (ARRAY['events'::text, 'lake'::text])) AND (act = 'send'::text)) OR ((source = 'dead_letters'::text) AND (act = ANY (ARRAY['send'::text, 'purge'::text]))) OR ((source = 'deliveries'::text) AND (act = 'give_up'::text)) OR ((source = 'jobs'::text) AND (act = 'cancel'::text)))),
    CONSTRAINT replays_check CHECK (((subscription_id IS NOT NULL) OR (source <> ALL (ARRAY['events'::text, 'lake'::text])))),
    CONSTRAINT replays_incident_check CHECK ((((incident_id IS NULL) AND (incident_due_at IS NULL)) OR ((source = 'dead_letters'::text) AND (due_at = 'infinity'::timestamp with time zone) AND (incident_id IS NOT NULL) AND (incident_due_at IS NOT NULL)))),
    CONSTRAINT replays_rate_per_second_check CHECK ((rate_per_second > 0)),
    CONSTRAINT replays_state_check CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'done'::text, 'cancelled'::text])))
);

COMMENT ON TABLE hookwire.replays IS 'Replays: what is sent again, given up, deleted or cancelled in steps, in the background.';

COMMENT ON COLUMN hookwire.replays.source IS 'events, dead_letters, deliveries, jobs, or lake: a backfill.';

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

COMMENT ON COLUMN hookwire.replays.replayed IS 'What was done: deliveries made, dead letters deleted, deliveries given up or jobs cancelled.';

COMMENT ON COLUMN hookwire.replays.due_at IS 'When the next step is made.';

COMMENT ON COLUMN hookwire.replays.erased IS 'Events that it left out because their contents were erased.';

COMMENT ON COLUMN hookwire.replays.act IS 'What is done with each: send, purge, give_up or cancel.';

COMMENT ON COLUMN hookwire.replays.job_kind IS 'Only jobs of this kind; NULL: all.';

COMMENT ON COLUMN hookwire.replays.job_state IS 'Only jobs in this state; NULL: all.';

COMMENT ON COLUMN hookwire.replays.last_seq IS 'Up to this job the range is done.';

COMMENT ON COLUMN hookwire.replays.upper_seq IS 'The last job of the range, fixed at the start.';

COMMENT ON COLUMN hookwire.replays.incident_id IS 'Only dead letters of this incident; NULL: all.';

COMMENT ON COLUMN hookwire.replays.incident_due_at IS 'When the next step is made for an incident. Then due_at is infinity, because processes of 0.2.0 know no incidents.';

COMMENT ON COLUMN hookwire.replays.missed IS 'Only events that the subscription never got. It waits for the fan-out of events that were accepted before.';

ALTER TABLE hookwire.replays ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.replays_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.request_archive (
    id uuid NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    service text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    via text NOT NULL,
    caller text,
    worker text,
    attempts integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    answered_at timestamp with time zone,
    closed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    closed_by text NOT NULL,
    body_bytes integer NOT NULL,
    reply_bytes integer
);

COMMENT ON TABLE hookwire.request_archive IS 'What closed requests leave: the audit, without contents.';

COMMENT ON COLUMN hookwire.request_archive.state IS 'The state in which it was closed.';

COMMENT ON COLUMN hookwire.request_archive.via IS 'As in requests.';

COMMENT ON COLUMN hookwire.request_archive.caller IS 'As in requests.';

COMMENT ON COLUMN hookwire.request_archive.closed_by IS 'The key, role or deadline that closed it.';

CREATE TABLE hookwire.request_keys (
    client text NOT NULL COLLATE pg_catalog."C",
    number text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    request_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE hookwire.request_keys IS 'Requests by client and message number: the same pair is the same request.';

COMMENT ON COLUMN hookwire.request_keys.client IS 'The client''s id.';

COMMENT ON COLUMN hookwire.request_keys.number IS 'The client''s number of the message.';

COMMENT ON COLUMN hookwire.request_keys.digest IS 'Of the request: another request under the same pair is refused.';

CREATE SEQUENCE hookwire.request_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER TABLE hookwire.services ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.services_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.source_offsets (
    source text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    last_offset bigint,
    last_digest bytea,
    last_record_at timestamp with time zone,
    end_offset bigint,
    taken bigint DEFAULT 0 NOT NULL,
    trouble text,
    reader text,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    rate double precision
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.source_offsets IS 'How far each partition of a source is taken. This offset wins over that of the consumer group.';

COMMENT ON COLUMN hookwire.source_offsets.source IS 'The Kafka topic that is read.';

COMMENT ON COLUMN hookwire.source_offsets.partition IS 'Number of the partition in Kafka.';

COMMENT ON COLUMN hookwire.source_offsets.next_offset IS 'The first offset that is not taken.';

COMMENT ON COLUMN hookwire.source_offsets.last_offset IS 'The offset of the last record that was taken.';

COMMENT ON COLUMN hookwire.source_offsets.last_digest IS 'A hash of this record: another record at its offset means that the topic was made anew.';

COMMENT ON COLUMN hookwire.source_offsets.last_record_at IS 'The timestamp of this record.';

COMMENT ON COLUMN hookwire.source_offsets.end_offset IS 'The end of the partition, as its reader has seen it last.';

COMMENT ON COLUMN hookwire.source_offsets.taken IS 'Number of records that were taken, with those that were refused.';

COMMENT ON COLUMN hookwire.source_offsets.trouble IS 'Why its reader does not go on; NULL while it does.';

COMMENT ON COLUMN hookwire.source_offsets.reader IS 'The process that has read it last.';

COMMENT ON COLUMN hookwire.source_offsets.changed_at IS 'When the offset has moved last.';

COMMENT ON COLUMN hookwire.source_offsets.rate IS 'Records a second that its reader has taken, of the last seconds before its last report.';

CREATE TABLE hookwire.source_patterns (
    pattern text NOT NULL,
    first_topics text[] NOT NULL,
    passed_over jsonb DEFAULT '[]'::jsonb NOT NULL,
    passed_over_count integer DEFAULT 0 NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.source_patterns IS 'Patterns of Kafka topics that are read, from the first look on.';

COMMENT ON COLUMN hookwire.source_patterns.pattern IS 'The pattern, as the settings have it.';

COMMENT ON COLUMN hookwire.source_patterns.first_topics IS 'The Kafka topics that its first look has found, up to 10,000. The start counts for these; later ones are read from their first record.';

COMMENT ON COLUMN hookwire.source_patterns.passed_over IS 'Topics that fit and that it does not read, up to 20: an array of objects with topic, kind and reason.';

COMMENT ON COLUMN hookwire.source_patterns.passed_over_count IS 'How many topics it passes over.';

COMMENT ON COLUMN hookwire.source_patterns.changed_at IS 'When the topics that it passes over have changed last.';

CREATE TABLE hookwire.source_refusals (
    id bigint NOT NULL,
    source text NOT NULL,
    partition integer,
    record_offset bigint,
    reason text NOT NULL,
    detail text NOT NULL,
    key bytea,
    value bytea,
    headers jsonb NOT NULL,
    record_at timestamp with time zone,
    bytes integer NOT NULL,
    refused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    held_keys text[],
    kind text DEFAULT 'kafka'::text NOT NULL,
    CONSTRAINT source_refusals_kind_check CHECK ((kind = ANY (ARRAY['kafka'::text, 'amqp'::text])))
);

COMMENT ON TABLE hookwire.source_refusals IS 'Records of Kafka that cannot become events, as they are there, and messages of AMQP.';

COMMENT ON COLUMN hookwire.source_refusals.source IS 'The Kafka topic of a record; the queue of a message.';

COMMENT ON COLUMN hookwire.source_refusals.partition IS 'Its partition; NULL for a message.';

COMMENT ON COLUMN hookwire.source_refusals.record_offset IS 'Its offset there; NULL for a message.';

COMMENT ON COLUMN hookwire.source_refusals.reason IS 'The kind of the cause in one word, as in the metrics.';

COMMENT ON COLUMN hookwire.source_refusals.detail IS 'The cause, for people.';

COMMENT ON COLUMN hookwire.source_refusals.key IS 'Its key; NULL if it has none.';

COMMENT ON COLUMN hookwire.source_refusals.value IS 'Its value; NULL for a tombstone.';

COMMENT ON COLUMN hookwire.source_refusals.headers IS 'Of a record: an array of names and values by turns; the values are Base64. Of a message: an object of its properties, null if they cannot be read.';

COMMENT ON COLUMN hookwire.source_refusals.record_at IS 'Its timestamp; NULL without a usable one.';

COMMENT ON COLUMN hookwire.source_refusals.bytes IS 'Size of key, value and headers.';

COMMENT ON COLUMN hookwire.source_refusals.refused_at IS 'When it was refused.';

COMMENT ON COLUMN hookwire.source_refusals.held_keys IS 'The ordering keys that wait for this record; NULL if it holds none.';

COMMENT ON COLUMN hookwire.source_refusals.kind IS 'kafka for a record; amqp for a message whose queue can have no queue for refused ones.';

ALTER TABLE hookwire.source_refusals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.source_refusals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.sources (
    name text NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE hookwire.sources IS 'Kafka topics that are read, by name.';

COMMENT ON COLUMN hookwire.sources.is_paused IS 'Whether a person has paused it: no process reads it then.';

COMMENT ON COLUMN hookwire.sources.changed_at IS 'When a person has paused or resumed it.';

CREATE VIEW hookwire.stash AS
 SELECT NULL::text AS event_id,
    NULL::text AS topic,
    NULL::text AS key,
    NULL::text AS payload,
    NULL::bytea AS payload_bytes,
    NULL::text AS content_type,
    NULL::jsonb AS headers
  WHERE false;

COMMENT ON VIEW hookwire.stash IS 'INSERT here to publish in your transaction; see docs/how-to/publish-from-your-transaction.md';

CREATE TABLE hookwire.subscription_secrets (
    subscription_id bigint NOT NULL,
    number integer NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE hookwire.subscription_secrets IS 'Signing secrets of subscriptions, encrypted. The newest signs first; an expired one signs no more.';

COMMENT ON COLUMN hookwire.subscription_secrets.number IS 'Rises with each rotation.';

COMMENT ON COLUMN hookwire.subscription_secrets.key_id IS 'The key that sealed the secret.';

COMMENT ON COLUMN hookwire.subscription_secrets.sealed IS 'The secret, encrypted.';

ALTER TABLE hookwire.subscriptions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.subscriptions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.task_archive (
    id text NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL,
    kind text NOT NULL,
    description text NOT NULL,
    outcome text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    start_time timestamp with time zone,
    finish_time timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    worker text,
    CONSTRAINT task_archive_outcome_check CHECK ((outcome = ANY (ARRAY['finished'::text, 'compensated'::text])))
);

COMMENT ON TABLE hookwire.task_archive IS 'Finished tasks of kinds that keep a record.';

COMMENT ON COLUMN hookwire.task_archive.description IS 'The arguments.';

COMMENT ON COLUMN hookwire.task_archive.outcome IS 'How it ended.';

ALTER TABLE hookwire.task_rows ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME hookwire.task_rows_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE hookwire.task_workers (
    name text NOT NULL,
    kinds text[] NOT NULL,
    slots integer NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_until timestamp with time zone NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.task_workers IS 'Workers of tasks that are present.';

COMMENT ON COLUMN hookwire.task_workers.kinds IS 'The kinds that it works on.';

COMMENT ON COLUMN hookwire.task_workers.slots IS 'How many tasks it runs at once.';

COMMENT ON COLUMN hookwire.task_workers.seen_until IS 'When it counts as crashed unless it is seen again.';

COMMENT ON COLUMN hookwire.task_workers.completed IS 'Tasks that it finished.';

COMMENT ON COLUMN hookwire.task_workers.failed IS 'Tasks that failed there.';

CREATE VIEW hookwire.tasks AS
 SELECT id,
    description,
    start_time,
    finish_time,
    kind,
    created_at,
    due_at,
    attempts,
    worker,
    last_error
   FROM hookwire.task_rows;

COMMENT ON VIEW hookwire.tasks IS 'Live tasks in the columns of the original article; INSERT enqueues.';

CREATE TABLE hookwire.topic_schemas (
    tenant text NOT NULL,
    topic text NOT NULL,
    version integer NOT NULL,
    schema text NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT topic_schemas_schema_check CHECK ((octet_length(schema) <= 65536)),
    CONSTRAINT topic_schemas_version_check CHECK ((version > 0))
);

COMMENT ON TABLE hookwire.topic_schemas IS 'JSON Schemas of topics, of which the lake makes columns.';

COMMENT ON COLUMN hookwire.topic_schemas.tenant IS 'The tenant of the topic.';

COMMENT ON COLUMN hookwire.topic_schemas.topic IS 'The topic.';

COMMENT ON COLUMN hookwire.topic_schemas.version IS 'From 1. The newest one counts.';

COMMENT ON COLUMN hookwire.topic_schemas.schema IS 'The JSON Schema as text, which keeps the order of its properties.';

COMMENT ON COLUMN hookwire.topic_schemas.made_at IS 'When it was stored.';

CREATE TABLE hookwire.topics (
    tenant text DEFAULT 'default'::text NOT NULL,
    name text NOT NULL,
    sinks text[],
    ordered boolean DEFAULT true NOT NULL,
    kafka_topic text,
    amqp_exchange text,
    amqp_routing_key text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    on_refused text,
    validator_url text,
    moved_to text,
    retention_days integer,
    version integer DEFAULT 1 NOT NULL,
    amqp_exchange_type text,
    job jsonb,
    made_by text,
    used_on date,
    amqp_vhost text,
    CONSTRAINT topics_amqp_exchange_type_check CHECK ((amqp_exchange_type = ANY (ARRAY['direct'::text, 'fanout'::text, 'topic'::text, 'headers'::text]))),
    CONSTRAINT topics_job_check CHECK (((('jobs'::text = ANY (sinks)) IS NOT TRUE) OR (((jsonb_typeof(job) = 'object'::text) AND (NOT starts_with(name, 'hookwire.'::text)) AND (name <> 'hookwire'::text)) IS TRUE))),
    CONSTRAINT topics_made_by_check CHECK (((made_by IS NULL) = (used_on IS NULL))),
    CONSTRAINT topics_on_refused_check CHECK ((on_refused = ANY (ARRAY['hold_key'::text, 'skip'::text, 'stop'::text]))),
    CONSTRAINT topics_retention_days_check CHECK (((retention_days >= 0) AND (retention_days <= 36500)))
);

COMMENT ON TABLE hookwire.topics IS 'Topics with their settings. The hub''s own topics need no row.';

COMMENT ON COLUMN hookwire.topics.sinks IS 'The sinks that events of the topic go to; NULL: those of the hub''s settings.';

COMMENT ON COLUMN hookwire.topics.ordered IS 'Whether events of a key keep the order of their commits.';

COMMENT ON COLUMN hookwire.topics.on_refused IS 'What a record that a broker refuses for good does to its key: hold_key, skip or stop; NULL: as the sink''s setting says.';

COMMENT ON COLUMN hookwire.topics.validator_url IS 'The URL that is asked about each WebSub subscribe request; NULL: nobody is asked.';

COMMENT ON COLUMN hookwire.topics.moved_to IS 'The URL at which the topic is published now; requests for it are redirected there.';

COMMENT ON COLUMN hookwire.topics.retention_days IS 'How long events are kept; 0: for ever; NULL: as the hub''s setting says.';

COMMENT ON COLUMN hookwire.topics.version IS 'Rises with each change of the settings; the ETag of the API.';

COMMENT ON COLUMN hookwire.topics.job IS 'The rule by which the sink jobs enqueues a job for each event; NULL: there was never one.';

COMMENT ON COLUMN hookwire.topics.made_by IS 'The API key whose use made the topic, empty without a key; NULL: made by hand.';

COMMENT ON COLUMN hookwire.topics.used_on IS 'The last day on which a process saw the topic in use; NULL: made by hand.';

COMMENT ON COLUMN hookwire.topics.amqp_vhost IS 'The AMQP virtual host of a mirror; NULL: that of the sink''s URL.';

CREATE TABLE hookwire.verification_buckets (
    tenant text NOT NULL,
    host text NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamp with time zone NOT NULL,
    CONSTRAINT verification_buckets_check CHECK (((tenant = ''::text) <> (host = ''::text)))
)
WITH (fillfactor='50');

COMMENT ON TABLE hookwire.verification_buckets IS 'Tokens of verification requests: an empty host is a tenant''s bucket, an empty tenant a host''s.';

COMMENT ON COLUMN hookwire.verification_buckets.tokens IS 'As of refilled_at.';

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_digest_key UNIQUE (digest);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.api_keys
    ADD CONSTRAINT api_keys_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.attempt_rollups
    ADD CONSTRAINT attempt_rollups_pkey PRIMARY KEY (subscription_id, grain, at);

ALTER TABLE hookwire.attempts
    ADD CONSTRAINT attempts_decision_check CHECK ((decision = ANY (ARRAY['delivered'::text, 'retry'::text, 'park'::text, 'dead'::text, 'dropped'::text, 'probe'::text]))) NOT VALID;

ALTER TABLE ONLY hookwire.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (event_id, subscription_id, number);

ALTER TABLE ONLY hookwire.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.backfill_batches
    ADD CONSTRAINT backfill_batches_pkey PRIMARY KEY (replay_id, above_id, part);

ALTER TABLE ONLY hookwire.backfill_failures
    ADD CONSTRAINT backfill_failures_pkey PRIMARY KEY (replay_id, event_id);

ALTER TABLE ONLY hookwire.backfills
    ADD CONSTRAINT backfills_pkey PRIMARY KEY (replay_id);

ALTER TABLE ONLY hookwire.compat_parked
    ADD CONSTRAINT compat_parked_pkey PRIMARY KEY (outbox, key);

ALTER TABLE ONLY hookwire.console_sessions
    ADD CONSTRAINT console_sessions_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY hookwire.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (queue, name);

ALTER TABLE hookwire.dead_letters
    ADD CONSTRAINT dead_letters_kind_check CHECK ((kind = ANY (ARRAY['exhausted'::text, 'too_late'::text, 'declined'::text, 'aborted'::text, 'given_up'::text, 'internal'::text, 'gone'::text, 'erased'::text]))) NOT VALID;

ALTER TABLE ONLY hookwire.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.dead_messages
    ADD CONSTRAINT dead_messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.dead_tasks
    ADD CONSTRAINT dead_tasks_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (event_id, subscription_id);

ALTER TABLE ONLY hookwire.delivery_failures
    ADD CONSTRAINT delivery_failures_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.delivery_gates
    ADD CONSTRAINT delivery_gates_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.delivery_members
    ADD CONSTRAINT delivery_members_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.erased_events
    ADD CONSTRAINT erased_events_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY hookwire.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.fanout_cursors
    ADD CONSTRAINT fanout_cursors_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY hookwire.foreign_topics
    ADD CONSTRAINT foreign_topics_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.former_audiences
    ADD CONSTRAINT former_audiences_pkey PRIMARY KEY (subscription_id, until_id, number);

ALTER TABLE ONLY hookwire.former_incarnations
    ADD CONSTRAINT former_incarnations_pkey PRIMARY KEY (through_id);

ALTER TABLE ONLY hookwire.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (sink, grp, tenant, topic, key, id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_id UNIQUE (id);

ALTER TABLE ONLY hookwire.holds
    ADD CONSTRAINT holds_pkey PRIMARY KEY (sink, grp, tenant, topic, key);

ALTER TABLE ONLY hookwire.id_watermarks
    ADD CONSTRAINT id_watermarks_pkey PRIMARY KEY (day);

ALTER TABLE ONLY hookwire.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant, topic, key);

ALTER TABLE ONLY hookwire.inbound_requests
    ADD CONSTRAINT inbound_requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.inbound_secrets
    ADD CONSTRAINT inbound_secrets_pkey PRIMARY KEY (source, number);

ALTER TABLE ONLY hookwire.inbound_sources
    ADD CONSTRAINT inbound_sources_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.incident_failures
    ADD CONSTRAINT incident_failures_pkey PRIMARY KEY (incident_id, minute);

ALTER TABLE ONLY hookwire.incidents
    ADD CONSTRAINT incidents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.intents
    ADD CONSTRAINT intents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.job_archive
    ADD CONSTRAINT job_archive_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.job_archive
    ADD CONSTRAINT job_archive_seq_key UNIQUE (seq);

ALTER TABLE ONLY hookwire.job_kinds
    ADD CONSTRAINT job_kinds_pkey PRIMARY KEY (kind);

ALTER TABLE ONLY hookwire.job_rates
    ADD CONSTRAINT job_rates_pkey PRIMARY KEY (kind, key);

ALTER TABLE ONLY hookwire.job_requests
    ADD CONSTRAINT job_requests_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.job_schedules
    ADD CONSTRAINT job_schedules_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.jobs
    ADD CONSTRAINT jobs_seq_key UNIQUE (seq);

ALTER TABLE ONLY hookwire.kept_answers
    ADD CONSTRAINT kept_answers_pkey PRIMARY KEY (tenant, caller, path, key);

ALTER TABLE ONLY hookwire.lake_audits
    ADD CONSTRAINT lake_audits_pkey PRIMARY KEY (lake);

ALTER TABLE ONLY hookwire.lake_backlog
    ADD CONSTRAINT lake_backlog_pkey PRIMARY KEY (tenant, at, topic, subscription);

ALTER TABLE ONLY hookwire.lake_batches
    ADD CONSTRAINT lake_batches_pkey PRIMARY KEY (job, batch);

ALTER TABLE ONLY hookwire.lake_bounds
    ADD CONSTRAINT lake_bounds_pkey PRIMARY KEY (lake, topic);

ALTER TABLE ONLY hookwire.lake_marks
    ADD CONSTRAINT lake_marks_pkey PRIMARY KEY (lake, table_name);

ALTER TABLE ONLY hookwire.lake_metrics
    ADD CONSTRAINT lake_metrics_pkey PRIMARY KEY (tenant, hour, topic, subscription);

ALTER TABLE ONLY hookwire.lake_proofs
    ADD CONSTRAINT lake_proofs_pkey PRIMARY KEY (lake, day, topic);

ALTER TABLE ONLY hookwire.lake_seals
    ADD CONSTRAINT lake_seals_pkey PRIMARY KEY (lake);

ALTER TABLE ONLY hookwire.lake_slo
    ADD CONSTRAINT lake_slo_pkey PRIMARY KEY (tenant, day, subscription);

ALTER TABLE ONLY hookwire.layouts
    ADD CONSTRAINT layouts_pkey PRIMARY KEY (number);

ALTER TABLE ONLY hookwire.ledger_cursor
    ADD CONSTRAINT ledger_cursor_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.ledger_entries
    ADD CONSTRAINT ledger_entries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (hour, sink, tenant, topic, bucket);

ALTER TABLE ONLY hookwire.message_log
    ADD CONSTRAINT message_log_pkey PRIMARY KEY (queue, xid, id);

ALTER TABLE ONLY hookwire.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY hookwire.number_marks
    ADD CONSTRAINT number_marks_pkey PRIMARY KEY (sequence);

ALTER TABLE ONLY hookwire.outbox_offsets
    ADD CONSTRAINT outbox_offsets_pkey PRIMARY KEY (outbox);

ALTER TABLE ONLY hookwire.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (sink, shard, id);

ALTER TABLE ONLY hookwire.process_states
    ADD CONSTRAINT process_states_pkey PRIMARY KEY (process, kind, name);

ALTER TABLE ONLY hookwire.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);

ALTER TABLE ONLY hookwire.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_tenant_vhost_kind_name_key UNIQUE (tenant, vhost, kind, name);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_pkey PRIMARY KEY (subscription_id);

ALTER TABLE ONLY hookwire.readiness
    ADD CONSTRAINT readiness_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY hookwire.relay_batch_numbers
    ADD CONSTRAINT relay_batch_numbers_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_batches
    ADD CONSTRAINT relay_batches_pkey PRIMARY KEY (sink, layout, grp, batch_no);

ALTER TABLE ONLY hookwire.relay_dead_letters
    ADD CONSTRAINT relay_dead_letters_pkey PRIMARY KEY (event_id, sink);

ALTER TABLE ONLY hookwire.relay_members
    ADD CONSTRAINT relay_members_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_pkey PRIMARY KEY (sink, grp);

ALTER TABLE ONLY hookwire.relay_terms
    ADD CONSTRAINT relay_terms_sink_grp_term_key UNIQUE (sink, grp, term);

ALTER TABLE ONLY hookwire.replays
    ADD CONSTRAINT replays_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.request_keys
    ADD CONSTRAINT request_keys_pkey PRIMARY KEY (client, number);

ALTER TABLE ONLY hookwire.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.services
    ADD CONSTRAINT services_name_key UNIQUE (name);

ALTER TABLE ONLY hookwire.services
    ADD CONSTRAINT services_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.sinks
    ADD CONSTRAINT sinks_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.source_offsets
    ADD CONSTRAINT source_offsets_pkey PRIMARY KEY (source, partition);

ALTER TABLE ONLY hookwire.source_patterns
    ADD CONSTRAINT source_patterns_pkey PRIMARY KEY (pattern);

ALTER TABLE ONLY hookwire.source_refusals
    ADD CONSTRAINT source_refusals_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.sources
    ADD CONSTRAINT sources_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_pkey PRIMARY KEY (subscription_id, number);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.subscriptions
    ADD CONSTRAINT subscriptions_public_id_key UNIQUE (public_id);

ALTER TABLE ONLY hookwire.task_kinds
    ADD CONSTRAINT task_kinds_pkey PRIMARY KEY (kind);

ALTER TABLE ONLY hookwire.task_rows
    ADD CONSTRAINT task_rows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY hookwire.task_workers
    ADD CONSTRAINT task_workers_pkey PRIMARY KEY (name);

ALTER TABLE ONLY hookwire.topic_schemas
    ADD CONSTRAINT topic_schemas_pkey PRIMARY KEY (tenant, topic, version);

ALTER TABLE ONLY hookwire.topics
    ADD CONSTRAINT topics_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_pkey PRIMARY KEY (tenant, topic);

ALTER TABLE ONLY hookwire.upstreams
    ADD CONSTRAINT upstreams_token_key UNIQUE (token);

ALTER TABLE ONLY hookwire.verification_buckets
    ADD CONSTRAINT verification_buckets_pkey PRIMARY KEY (tenant, host);

CREATE INDEX attempt_entries_settled ON hookwire.attempt_entries USING btree (settled_at);

CREATE INDEX attempt_rollups_at ON hookwire.attempt_rollups USING btree (grain, at);

CREATE INDEX attempts_subscription ON ONLY hookwire.attempts USING btree (subscription_id, event_id);

CREATE INDEX audit_jobs ON hookwire.audit USING btree (subject, id) WHERE starts_with(action, 'job.'::text);

CREATE INDEX console_sessions_age ON hookwire.console_sessions USING btree (expires_at);

CREATE INDEX console_sessions_of_key ON hookwire.console_sessions USING btree (key_id, created_at);

CREATE INDEX dead_letters_incident ON hookwire.dead_letters USING btree (incident_id, event_id, subscription_id) WHERE (incident_id IS NOT NULL);

CREATE INDEX dead_letters_kind ON hookwire.dead_letters USING btree (kind, event_id, subscription_id);

CREATE INDEX dead_letters_latest ON hookwire.dead_letters USING btree (died_at) WHERE ((kind <> 'gone'::text) AND (NOT on_purpose));

CREATE INDEX dead_letters_subscription ON hookwire.dead_letters USING btree (subscription_id, event_id);

CREATE INDEX dead_letters_ungrouped ON hookwire.dead_letters USING btree (event_id, subscription_id) WHERE ((incident_id IS NULL) AND (last_outcome IS NOT NULL) AND (kind <> ALL (ARRAY['gone'::text, 'erased'::text])));

CREATE INDEX dead_messages_age ON hookwire.dead_messages USING btree (queue, died_at);

CREATE INDEX dead_messages_queue ON hookwire.dead_messages USING btree (queue, id);

CREATE INDEX dead_tasks_age ON hookwire.dead_tasks USING btree (died_at);

CREATE INDEX dead_tasks_kind ON hookwire.dead_tasks USING btree (kind, died_at);

CREATE INDEX dead_tasks_untold ON hookwire.dead_tasks USING btree (number) WHERE (told_at IS NULL);

CREATE INDEX deliveries_due ON hookwire.deliveries USING btree (subscription_id, due_at, event_id);

CREATE INDEX deliveries_incident ON hookwire.deliveries USING btree (incident_id) WHERE (incident_id IS NOT NULL);

CREATE INDEX deliveries_lane ON hookwire.deliveries USING btree (subscription_id, lane, event_id) WHERE (lane IS NOT NULL);

CREATE INDEX deliveries_parked ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE (parked_at IS NOT NULL);

CREATE INDEX deliveries_retrying ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NULL) AND (parked_at IS NULL));

CREATE INDEX deliveries_sending ON hookwire.deliveries USING btree (event_id, subscription_id) WHERE ((attempts > 0) AND (fence IS NOT NULL) AND (parked_at IS NULL));

CREATE INDEX delivery_failures_failing ON hookwire.delivery_failures USING btree (failing_since) WHERE (failing_since IS NOT NULL);

CREATE INDEX erased_events_freed ON hookwire.erased_events USING btree (event_id) WHERE ((erased_at IS NOT NULL) AND (rewritten_at IS NULL));

CREATE INDEX events_key ON ONLY hookwire.events USING btree (tenant, key, id) WHERE (key IS NOT NULL);

CREATE INDEX events_topic ON ONLY hookwire.events USING btree (tenant, topic, id);

CREATE INDEX foreign_topics_due ON hookwire.foreign_topics USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX foreign_topics_failing ON hookwire.foreign_topics USING btree (created_at) WHERE (failures > 1);

CREATE INDEX foreign_topics_loose_url ON hookwire.foreign_topics USING btree ("left"(regexp_replace(regexp_replace(lower(url), '^https?://(www[.])?'::text, ''::text), '(:80|:443)?/*([?#].*)?$'::text, ''::text), 500));

CREATE INDEX former_audiences_exact ON hookwire.former_audiences USING btree (tenant, topic, until_id) WHERE (topic_regex IS NULL);

CREATE INDEX former_audiences_patterns ON hookwire.former_audiences USING btree (tenant, topic_regex, until_id) WHERE (topic_regex IS NOT NULL);

CREATE INDEX held_id ON hookwire.held USING btree (sink, id);

CREATE INDEX holds_due ON hookwire.holds USING btree (probe_at);

CREATE INDEX idempotency_keys_age ON hookwire.idempotency_keys USING btree (accepted_at);

CREATE INDEX idempotency_keys_of_doors ON hookwire.idempotency_keys USING btree (split_part(key, ':'::text, 1), accepted_at) WHERE ("right"(key, 3) = 'in'::text);

CREATE INDEX idempotency_keys_of_publishers ON hookwire.idempotency_keys USING btree (accepted_at) WHERE ("right"(key, 3) <> 'in'::text);

CREATE INDEX inbound_requests_latest ON hookwire.inbound_requests USING btree (source, outcome, arrived_at);

CREATE INDEX incidents_active ON hookwire.incidents USING btree (id) WHERE is_active;

CREATE UNIQUE INDEX incidents_cause ON hookwire.incidents USING btree (subscription_id, fingerprint) WHERE (subscription_id IS NOT NULL);

CREATE INDEX incidents_first_event ON hookwire.incidents USING btree (first_event_id);

CREATE UNIQUE INDEX incidents_held ON hookwire.incidents USING btree (tenant, sink, fingerprint) WHERE (subscription_id IS NULL);

CREATE INDEX incidents_state ON hookwire.incidents USING btree (state, id);

CREATE INDEX incidents_untold ON hookwire.incidents USING btree (id) WHERE (NOT is_told);

CREATE INDEX intents_decided ON hookwire.intents USING btree (decided_at) WHERE (decided_at IS NOT NULL);

CREATE INDEX intents_due ON hookwire.intents USING btree (due_at) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_in_flight ON hookwire.intents USING btree (callback_host, mode) WHERE (state = 'verifying'::text);

CREATE INDEX intents_of_host ON hookwire.intents USING btree (callback_host) WHERE ((state = ANY (ARRAY['requested'::text, 'verifying'::text])) AND (mode = 'subscribe'::text));

CREATE INDEX intents_of_requester ON hookwire.intents USING btree (requester_network) WHERE (state = ANY (ARRAY['requested'::text, 'verifying'::text]));

CREATE INDEX intents_pair ON hookwire.intents USING btree (tenant, identity, id);

CREATE INDEX job_archive_age ON hookwire.job_archive USING btree (kind, ended_at);

CREATE INDEX job_archive_discarded ON hookwire.job_archive USING btree (kind, ended_at) WHERE (state = 'discarded'::text);

CREATE INDEX job_archive_event ON hookwire.job_archive USING btree (((args ->> 'event_id'::text))) WHERE (created_by = 'topic'::text);

CREATE INDEX job_archive_uniq ON hookwire.job_archive USING btree (kind, uniq, ended_at) WHERE (uniq IS NOT NULL);

CREATE INDEX job_kinds_reviewed ON hookwire.job_kinds USING btree (automation, needs_review) WHERE (needs_review OR (automation = 'assisted'::text));

CREATE INDEX job_requests_job ON hookwire.job_requests USING btree (job_id);

CREATE INDEX job_schedules_due ON hookwire.job_schedules USING btree (next_at) WHERE (NOT is_paused);

CREATE INDEX jobs_assignee ON hookwire.jobs USING btree (assignee, seq) WHERE (assignee IS NOT NULL);

CREATE INDEX jobs_available ON hookwire.jobs USING btree (queue, kind, rank_at, seq) WHERE ((state = 'available'::text) AND (NOT for_people));

CREATE INDEX jobs_deadline ON hookwire.jobs USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX jobs_due ON hookwire.jobs USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX jobs_event ON hookwire.jobs USING btree (((args ->> 'event_id'::text))) WHERE (created_by = 'topic'::text);

CREATE INDEX jobs_keys ON hookwire.jobs USING btree (queue, kind, key, rank_at, seq) WHERE ((state = 'available'::text) AND (NOT for_people));

CREATE INDEX jobs_leased ON hookwire.jobs USING btree (lease_until) WHERE (state = 'running'::text);

CREATE INDEX jobs_local ON hookwire.jobs USING btree (due_local) WHERE (due_local IS NOT NULL);

CREATE INDEX jobs_of_people ON hookwire.jobs USING btree (state, seq) WHERE (state = ANY (ARRAY['assigned'::text, 'review'::text, 'retryable'::text]));

CREATE INDEX jobs_people ON hookwire.jobs USING btree (kind, seq) WHERE (for_people AND (state = 'available'::text));

CREATE INDEX jobs_pool ON hookwire.jobs USING btree (seq) WHERE (for_people AND (state = 'available'::text));

CREATE INDEX jobs_running ON hookwire.jobs USING btree (kind, key) WHERE (state = 'running'::text);

CREATE UNIQUE INDEX jobs_token ON hookwire.jobs USING btree (token) WHERE (token IS NOT NULL);

CREATE UNIQUE INDEX jobs_uniq ON hookwire.jobs USING btree (kind, uniq) WHERE (uniq IS NOT NULL);

CREATE INDEX kept_answers_age ON hookwire.kept_answers USING btree (answered_at);

CREATE INDEX ledger_unequal ON hookwire.ledger USING btree (hour) WHERE ((sink <> ''::text) AND ((((owed_count IS DISTINCT FROM (sent_count + dead_count)) OR (owed_sum IS DISTINCT FROM settled_sum)) OR (owed_min IS DISTINCT FROM settled_min)) OR (owed_max IS DISTINCT FROM settled_max)));

CREATE INDEX message_archive_age ON hookwire.message_archive USING btree (queue, accepted_at);

CREATE INDEX message_log_age ON hookwire.message_log USING btree (queue, created_at);

CREATE INDEX messages_available ON hookwire.messages USING btree (queue, id) WHERE ((claim IS NULL) AND (due_at IS NULL));

CREATE INDEX messages_delayed ON hookwire.messages USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX messages_key ON hookwire.messages USING btree (queue, key, id) WHERE ((claim IS NULL) AND (due_at IS NULL) AND (key IS NOT NULL));

CREATE INDEX messages_leased ON hookwire.messages USING btree (lease_until) WHERE (claim IS NOT NULL);

CREATE INDEX messages_type ON hookwire.messages USING btree (queue, type, id) WHERE ((claim IS NULL) AND (due_at IS NULL) AND (type IS NOT NULL));

CREATE INDEX queues_expire ON hookwire.queues USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX queues_made_by ON hookwire.queues USING btree (made_by, used_on) WHERE (made_by IS NOT NULL);

CREATE INDEX rabbithub_subscriptions_bindings ON hookwire.rabbithub_subscriptions USING btree (queue_id) WHERE (queue_id IS NOT NULL);

CREATE INDEX rabbithub_subscriptions_resource ON hookwire.rabbithub_subscriptions USING btree (resource_id);

CREATE INDEX relay_dead_letters_latest ON hookwire.relay_dead_letters USING btree (died_at) WHERE (NOT on_purpose);

CREATE INDEX replays_due ON hookwire.replays USING btree (COALESCE(incident_due_at, due_at)) WHERE (state = 'running'::text);

CREATE INDEX replays_running ON hookwire.replays USING btree (due_at) WHERE (state = 'running'::text);

CREATE INDEX request_archive_age ON hookwire.request_archive USING btree (closed_at);

CREATE INDEX request_keys_age ON hookwire.request_keys USING btree (expires_at);

CREATE INDEX requests_dead ON hookwire.requests USING btree (service, deadline_at) WHERE (state = ANY (ARRAY['expired'::text, 'failed'::text]));

CREATE INDEX requests_deadline ON hookwire.requests USING btree (deadline_at);

CREATE INDEX requests_leased ON hookwire.requests USING btree (service) WHERE (state = 'leased'::text);

CREATE INDEX requests_number ON hookwire.requests USING btree (number);

CREATE INDEX requests_waiting ON hookwire.requests USING btree (service, number) WHERE (state = 'waiting'::text);

CREATE INDEX services_made_by ON hookwire.services USING btree (made_by, used_on) WHERE (made_by IS NOT NULL);

CREATE INDEX source_refusals_age ON hookwire.source_refusals USING btree (refused_at);

CREATE INDEX source_refusals_held ON hookwire.source_refusals USING btree (source, partition, id) WHERE (held_keys IS NOT NULL);

CREATE INDEX source_refusals_source ON hookwire.source_refusals USING btree (source, id);

CREATE UNIQUE INDEX subscriptions_binding ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'pull'::text) AND (state <> 'deleted'::text) AND (identity IS NOT NULL));

CREATE INDEX subscriptions_disabled ON hookwire.subscriptions USING btree (id) WHERE (state = 'disabled'::text);

CREATE INDEX subscriptions_ended ON hookwire.subscriptions USING btree (updated_at) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['expired'::text, 'denied'::text, 'deleted'::text])));

CREATE INDEX subscriptions_exact ON hookwire.subscriptions USING btree (tenant, topic) WHERE ((state = 'active'::text) AND (topic_regex IS NULL));

CREATE INDEX subscriptions_host ON hookwire.subscriptions USING btree (rtrim(lower(("substring"(callback, '^[^:/?#]+://(?:[^/?#@]*@)?(\[[^]]*\]|[^/?#:]*)'::text) COLLATE "C")), '.'::text), id) WHERE (callback <> ''::text);

CREATE INDEX subscriptions_job ON hookwire.subscriptions USING btree (kind) WHERE ((protocol = 'job'::text) AND (state = 'active'::text));

CREATE INDEX subscriptions_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_host ON hookwire.subscriptions USING btree (callback_host) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_of_requester ON hookwire.subscriptions USING btree (requester_network) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pair ON hookwire.subscriptions USING btree (tenant, identity, id) WHERE (protocol = 'websub'::text);

CREATE INDEX subscriptions_patterns ON hookwire.subscriptions USING btree (tenant, topic_regex) WHERE ((state = 'active'::text) AND (topic_regex IS NOT NULL));

CREATE INDEX subscriptions_paused ON hookwire.subscriptions USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX subscriptions_permanent ON hookwire.subscriptions USING btree (lease_until) WHERE (permanent AND (protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX subscriptions_pull_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'pull'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_rabbithub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'rabbithub'::text) AND (state <> 'deleted'::text));

CREATE INDEX subscriptions_rabbithub_lease ON hookwire.subscriptions USING btree (lease_until) WHERE ((protocol = 'rabbithub'::text) AND (state = 'active'::text));

CREATE INDEX subscriptions_service ON hookwire.subscriptions USING btree (service) WHERE ((protocol = 'service'::text) AND (state = 'active'::text));

CREATE UNIQUE INDEX subscriptions_websub ON hookwire.subscriptions USING btree (tenant, identity) WHERE ((protocol = 'websub'::text) AND (state = ANY (ARRAY['active'::text, 'disabled'::text])));

CREATE INDEX task_archive_age ON hookwire.task_archive USING btree (finish_time);

CREATE INDEX task_rows_due ON hookwire.task_rows USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX task_rows_finished ON hookwire.task_rows USING btree (finish_time) WHERE (finish_time IS NOT NULL);

CREATE INDEX task_rows_lease ON hookwire.task_rows USING btree (lease_until) WHERE (start_time IS NOT NULL);

CREATE INDEX task_rows_notify ON hookwire.task_rows USING btree (notify_at) WHERE ((start_time IS NULL) AND (due_at IS NULL) AND (notify_at IS NOT NULL));

CREATE UNIQUE INDEX task_rows_once ON hookwire.task_rows USING btree (kind, sha256((replace(description, '\'::text, '\\'::text))::bytea)) WHERE (is_unique AND (finish_time IS NULL));

CREATE INDEX task_rows_waiting ON hookwire.task_rows USING btree (kind, seq) WHERE ((start_time IS NULL) AND (due_at IS NULL));

CREATE INDEX task_rows_worker ON hookwire.task_rows USING btree (worker) WHERE (worker IS NOT NULL);

CREATE INDEX topics_made_by ON hookwire.topics USING btree (made_by, used_on) WHERE (made_by IS NOT NULL);

CREATE INDEX upstreams_due ON hookwire.upstreams USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX upstreams_failing ON hookwire.upstreams USING btree (created_at) WHERE ((state = 'denied'::text) OR ((state <> 'ended'::text) AND (failures > 1)));

CREATE TRIGGER announce AFTER INSERT ON hookwire.task_rows REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION hookwire.announce_tasks();

CREATE CONSTRAINT TRIGGER await_direct_commits_changed AFTER UPDATE ON hookwire.subscriptions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((((new.version IS DISTINCT FROM old.version) OR (new.state IS DISTINCT FROM old.state)) OR (new.topic IS DISTINCT FROM old.topic)) OR ((new.protocol <> 'pull'::text) AND (new.lease_until IS DISTINCT FROM old.lease_until)))) EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE CONSTRAINT TRIGGER await_direct_commits_made AFTER INSERT ON hookwire.subscriptions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.state = 'active'::text)) EXECUTE FUNCTION hookwire.await_direct_commits();

CREATE TRIGGER complete_begun BEFORE UPDATE ON hookwire.task_rows FOR EACH ROW WHEN ((((old.start_time IS NULL) <> (new.start_time IS NULL)) AND (NOT (old.claim IS DISTINCT FROM new.claim)))) EXECUTE FUNCTION hookwire.complete_task();

CREATE TRIGGER complete_new BEFORE INSERT ON hookwire.task_rows FOR EACH ROW EXECUTE FUNCTION hookwire.complete_task();

CREATE TRIGGER note_batch_no BEFORE UPDATE OF term ON hookwire.relay_terms FOR EACH ROW EXECUTE FUNCTION hookwire.note_batch_no();

CREATE TRIGGER note_disabled BEFORE UPDATE OF state ON hookwire.subscriptions FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION hookwire.note_disabled();

CREATE TRIGGER note_former_audience AFTER UPDATE ON hookwire.subscriptions FOR EACH ROW WHEN (((old.state = 'active'::text) AND ((new.protocol <> 'websub'::text) OR (new.state = ANY (ARRAY['active'::text, 'disabled'::text]))) AND ((new.state <> 'active'::text) OR (new.topic <> old.topic) OR (new.topic_regex IS DISTINCT FROM old.topic_regex) OR ((new.filter_path)::text IS DISTINCT FROM (old.filter_path)::text)))) EXECUTE FUNCTION hookwire.note_former_audience();

CREATE TRIGGER publish INSTEAD OF INSERT ON hookwire.stash FOR EACH ROW EXECUTE FUNCTION hookwire.stash_row();

CREATE TRIGGER submit INSTEAD OF INSERT ON hookwire.message_queue FOR EACH ROW EXECUTE FUNCTION hookwire.submit_row();

ALTER TABLE ONLY hookwire.backfill_batches
    ADD CONSTRAINT backfill_batches_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES hookwire.backfills(replay_id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.backfill_failures
    ADD CONSTRAINT backfill_failures_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES hookwire.backfills(replay_id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.backfills
    ADD CONSTRAINT backfills_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES hookwire.replays(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.console_sessions
    ADD CONSTRAINT console_sessions_key_id_fkey FOREIGN KEY (key_id) REFERENCES hookwire.api_keys(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.inbound_requests
    ADD CONSTRAINT inbound_requests_source_fkey FOREIGN KEY (source) REFERENCES hookwire.inbound_sources(name) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.inbound_secrets
    ADD CONSTRAINT inbound_secrets_source_fkey FOREIGN KEY (source) REFERENCES hookwire.inbound_sources(name) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_resources
    ADD CONSTRAINT rabbithub_resources_source_fkey FOREIGN KEY (source) REFERENCES hookwire.subscriptions(id);

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_resource_id_fkey FOREIGN KEY (resource_id) REFERENCES hookwire.rabbithub_resources(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.rabbithub_subscriptions
    ADD CONSTRAINT rabbithub_subscriptions_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.source_offsets
    ADD CONSTRAINT source_offsets_source_fkey FOREIGN KEY (source) REFERENCES hookwire.sources(name) ON DELETE CASCADE;

ALTER TABLE ONLY hookwire.subscription_secrets
    ADD CONSTRAINT subscription_secrets_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES hookwire.subscriptions(id) ON DELETE CASCADE;

GRANT SELECT,INSERT ON TABLE hookwire.message_queue TO PUBLIC;

GRANT SELECT,INSERT ON TABLE hookwire.stash TO PUBLIC;

GRANT INSERT ON TABLE hookwire.tasks TO PUBLIC;
