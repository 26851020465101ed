-- The origin that a callback has consented to be sent to by (CloudEvents handshake, WH-C14); with it the rate it allows
-- becomes the subscription's.
ALTER TABLE hookwire.subscriptions ADD COLUMN request_origin text;
