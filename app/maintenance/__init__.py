"""maintenance keeps the tables small: retention, clean-up, the ledger, and one poller for all due work."""
