-- Several events in one request, as a CloudEvents batch, for who asks for it and names how many at most (WH-C05, WH-C11).
ALTER TABLE hookwire.subscriptions
    ADD COLUMN batch_max integer CHECK (batch_max BETWEEN 1 AND 1000),
    DROP CONSTRAINT subscriptions_format_check,
    ADD CONSTRAINT subscriptions_format_check CHECK (format IN ('as_published', 'raw', 'binary', 'structured', 'batch'));
