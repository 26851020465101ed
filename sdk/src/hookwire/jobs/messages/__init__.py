"""Message queues: the queue and its messages, in PostgreSQL and in MySQL, and messages as work of a worker."""
