-- What a subscription is still owed when it ends: dead letters, or nothing for one that somebody only looks through (FT-07).
ALTER TABLE hookwire.subscriptions ADD COLUMN drops_at_end boolean NOT NULL DEFAULT false;
