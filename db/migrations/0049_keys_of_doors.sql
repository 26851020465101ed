-- Keys of doors by door and age.
CREATE INDEX IF NOT EXISTS idempotency_keys_of_doors ON hookwire.idempotency_keys (split_part(key, ':', 1), accepted_at)
    WHERE right(key, 3) = E'\x1fin';
