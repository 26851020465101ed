-- Lanes: only the head of a lane is ever due, and an attempt for new content leaves the retry schedule alone.
--
-- What waits behind another delivery of its lane has due_at = 'infinity': however much that is, no claim and no poll
-- walks over it. The settlement of a head makes the next one due; what slips through is found by promote_heads.
--
-- For WebSub new content wakes a head that is backing off (woken_at). That attempt is counted in attempts and in
-- free_attempts, so that attempts - free_attempts is the place in the retry schedule; planned_at keeps the moment at
-- which the schedule goes on, and is null in its ordinary course.
ALTER TABLE hookwire.deliveries
    ADD COLUMN free_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN woken_at timestamptz,
    ADD COLUMN planned_at timestamptz;
