"""Pages for people: the status page and the diagnosis of one subscription, their routes and their data."""
