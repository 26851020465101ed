"""queues delivers opaque messages to one or more consumers. It does not know the outcome of the work."""
