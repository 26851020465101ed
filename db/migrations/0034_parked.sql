-- Deliveries that wait for somebody's decision, among all that are owed: few, and listed by themselves (WH-O03).
CREATE INDEX deliveries_parked ON hookwire.deliveries (event_id, subscription_id) WHERE parked_at IS NOT NULL;
