-- An event as a line in a chat room, by the incoming webhooks of Slack and Mattermost; how the line is written.
ALTER TABLE hookwire.subscriptions
    ADD COLUMN template text,
    DROP CONSTRAINT subscriptions_format_check,
    ADD CONSTRAINT subscriptions_format_check
        CHECK (format IN ('as_published', 'raw', 'binary', 'structured', 'batch', 'websub_ping', 'slack', 'mattermost'));
