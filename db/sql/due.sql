-- Due work: one question for all services of a process (ADR 29).

-- name: poll
-- Return the highest id ever drawn and its origin. A relay learns from them up to which id nothing is owed. Return per
-- service whether its own statement would find work; each column reads only the index of due rows. Layout changes send
-- no notification, so the latest order scope is polled too. The query does not block on a change in progress.
SELECT CASE WHEN drawn.is_called THEN drawn.last_value ELSE drawn.last_value - 1 END AS last_id,
       hookwire.origin() AS origin,
       (SELECT h.id FROM hookwire.holds h WHERE h.probe_at <= now() ORDER BY h.probe_at LIMIT 1) IS NOT NULL AS holds,
       (SELECT d.subscription_id FROM hookwire.deliveries d ORDER BY d.subscription_id, d.due_at LIMIT 1) IS NOT NULL AS deliveries,
       EXISTS (SELECT FROM hookwire.replays r WHERE r.state = 'running' AND coalesce(r.incident_due_at, r.due_at) <= now()) AS replays,
       EXISTS (SELECT FROM hookwire.intents i WHERE i.state IN ('requested', 'verifying') AND i.due_at <= now()) AS intents,
       (SELECT s.lease_until FROM hookwire.subscriptions s
        WHERE s.protocol = 'websub' AND s.state IN ('active', 'disabled') AND s.lease_until <= now()
        ORDER BY s.lease_until LIMIT 1) IS NOT NULL AS leases,
       EXISTS (SELECT FROM hookwire.foreign_topics f
               WHERE f.due_at <= now() AND (f.claimed_until IS NULL OR f.claimed_until <= now())) AS foreign_topics,
       EXISTS (SELECT FROM hookwire.upstreams u
               WHERE u.due_at <= now() AND (u.claimed_until IS NULL OR u.claimed_until <= now())) AS upstreams,
       (SELECT m.id FROM hookwire.messages m WHERE m.claim IS NOT NULL AND m.lease_until <= now() ORDER BY m.lease_until LIMIT 1) IS NOT NULL
       OR (SELECT m.id FROM hookwire.messages m WHERE m.due_at <= now() ORDER BY m.due_at LIMIT 1) IS NOT NULL AS messages,
       EXISTS (SELECT FROM hookwire.task_rows t WHERE t.start_time IS NULL AND t.due_at IS NULL AND t.notify_at <= now())
       OR EXISTS (SELECT FROM hookwire.task_rows t WHERE t.due_at <= now())
       OR EXISTS (SELECT FROM hookwire.task_rows t WHERE t.start_time IS NOT NULL AND t.lease_until <= now())
       OR EXISTS (SELECT FROM hookwire.task_rows t WHERE t.finish_time <= now())
       OR EXISTS (SELECT FROM hookwire.task_workers w WHERE w.seen_until <= now()) AS tasks,
       EXISTS (SELECT FROM hookwire.jobs j WHERE j.due_at <= now())
       OR EXISTS (SELECT FROM hookwire.jobs j WHERE j.state = 'running' AND j.lease_until <= now())
       OR EXISTS (SELECT FROM hookwire.jobs j WHERE j.deadline_at <= now() AND j.state <> 'running')
       OR EXISTS (SELECT FROM hookwire.job_schedules s WHERE s.next_at <= now() AND NOT s.is_paused) AS jobs,
       -- The bound is far above the number of kinds with a callback.
       EXISTS (SELECT FROM (SELECT s.kind, s.queue FROM hookwire.subscriptions s WHERE s.protocol = 'job' AND s.state = 'active'
                            ORDER BY s.kind LIMIT 10000) AS pushed
               WHERE (SELECT j.id FROM hookwire.jobs j WHERE j.queue = pushed.queue AND j.kind = pushed.kind AND j.state = 'available'
                        AND NOT j.for_people ORDER BY j.rank_at, j.seq LIMIT 1) IS NOT NULL) AS pushed_jobs,
       EXISTS (SELECT FROM hookwire.dead_tasks d WHERE d.told_at IS NULL) AS dead_tasks,
       (SELECT r.id FROM hookwire.requests r WHERE r.deadline_at <= now() ORDER BY r.deadline_at LIMIT 1) IS NOT NULL AS requests,
       -- The bound is far above the number of services with a callback.
       EXISTS (SELECT FROM (SELECT s.service FROM hookwire.subscriptions s WHERE s.protocol = 'service' AND s.state = 'active'
                            ORDER BY s.service LIMIT 10000) AS pushed
               WHERE (SELECT r.id FROM hookwire.requests r WHERE r.service = pushed.service AND r.state = 'waiting'
                      ORDER BY r.number LIMIT 1) IS NOT NULL) AS callbacks,
       (SELECT r.subscription_id FROM hookwire.rabbithub_subscriptions r ORDER BY r.subscription_id LIMIT 1) IS NOT NULL AS rabbithub,
       (SELECT l.order_scope = 'key' FROM hookwire.layouts l ORDER BY l.number DESC LIMIT 1) AS orders_across_topics
FROM hookwire.event_id AS drawn;
