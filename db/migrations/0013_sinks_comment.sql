-- The comment of 0001 names a sink that does not exist: pull subscriptions get their deliveries from the webhooks' fan-out.
COMMENT ON TABLE hookwire.sinks IS 'The sinks that exist: webhooks, jobs, kafka and amqp.';
