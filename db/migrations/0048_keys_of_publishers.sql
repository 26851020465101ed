-- Keys of doors end after the time of their door, all others after one time. So each kind has its index by age, which is
-- built in a transaction of its own: publishing waits for one at a time.
CREATE INDEX IF NOT EXISTS idempotency_keys_of_publishers ON hookwire.idempotency_keys (accepted_at)
    WHERE right(key, 3) <> E'\x1fin';
