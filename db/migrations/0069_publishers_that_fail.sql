-- Topics of other publishers that do not come, for the verdict.
CREATE INDEX IF NOT EXISTS upstreams_failing ON hookwire.upstreams (created_at) WHERE state = 'denied' OR state <> 'ended' AND failures > 1;
CREATE INDEX IF NOT EXISTS foreign_topics_failing ON hookwire.foreign_topics (created_at) WHERE failures > 1;
