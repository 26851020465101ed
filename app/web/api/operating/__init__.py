"""operating holds the routes for operators: health, deliveries, holds, dead letters, replays and the audit."""
