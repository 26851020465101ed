"""tasks are work that exists if and only if a transaction committed. A broker's message only wakes a worker."""
