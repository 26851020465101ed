"""maintenance keeps the tables small: retention, clean-up, the ledger, and one poller for all that is due."""
