-- The jobs that wait for a person, newest first. Jobs for machines are not in the index.
CREATE INDEX IF NOT EXISTS jobs_pool ON hookwire.jobs (seq) WHERE for_people AND state = 'available';
