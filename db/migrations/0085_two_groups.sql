-- A new installation relays to Kafka in two partition groups, no longer in four. Each group has transactions of its own,
-- and a small one costs as much as a large one. An installation that has relayed or published keeps its groups: its old
-- transactional ids would stay unfenced.
UPDATE hookwire.layouts SET groups = '{"kafka": 2}'
WHERE number = 1 AND groups = '{"kafka": 4}'
  AND NOT EXISTS (SELECT FROM hookwire.relay_terms) AND NOT EXISTS (SELECT FROM hookwire.events);
