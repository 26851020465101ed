-- A topic that is published somewhere else from now on: its URL here redirects there (W3C WebSub 6; WS-75).

ALTER TABLE hookwire.topics ADD COLUMN moved_to text;
