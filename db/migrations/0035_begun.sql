-- Deliveries that are being sent, and those that wait for another attempt, among all that are owed and not begun: listed by
-- themselves (GET /deliveries?state=sending and retrying). A row is in one of the two at most. That attempts are counted
-- is said in both, so that no statement of the workers, which ask for a fence, is ever led over them.
CREATE INDEX deliveries_sending ON hookwire.deliveries (event_id, subscription_id)
    WHERE attempts > 0 AND fence IS NOT NULL AND parked_at IS NULL;
CREATE INDEX deliveries_retrying ON hookwire.deliveries (event_id, subscription_id)
    WHERE attempts > 0 AND fence IS NULL AND parked_at IS NULL;
