-- How a delivery carries the event (WH-C11): as it was published (CloudEvents binary if it was one, else its bare content),
-- never as a CloudEvent, or as one in binary or structured mode whatever it was.
ALTER TABLE hookwire.subscriptions
    ADD COLUMN format text NOT NULL DEFAULT 'as_published'
        CHECK (format IN ('as_published', 'raw', 'binary', 'structured'));
