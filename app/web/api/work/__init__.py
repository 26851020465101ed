"""work holds the routes of deferred work: message queues, tasks, jobs, and services that answer requests."""
