-- Mirrors of RabbitHub's exchanges in other virtual hosts, and whether the broker has a mirrored exchange.

ALTER TABLE hookwire.topics ADD COLUMN amqp_vhost text;
COMMENT ON COLUMN hookwire.topics.amqp_vhost IS 'The AMQP virtual host of a mirror; NULL: that of the sink''s URL.';
ALTER TABLE hookwire.rabbithub_resources ADD COLUMN declared_at timestamptz;
COMMENT ON COLUMN hookwire.rabbithub_resources.declared_at IS 'When a relay last found or declared the exchange in AMQP; NULL: not since it is mirrored.';
ALTER TABLE hookwire.rabbithub_resources ADD COLUMN declare_problem text;
COMMENT ON COLUMN hookwire.rabbithub_resources.declare_problem IS 'Why the broker refused to declare the exchange, the last time.';
