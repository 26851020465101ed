"""jobs tracks the state of a piece of work, done by a worker or a person, and fires schedules.

The diagram of a job stands in :mod:`jobs.jobs.job_queue`.
"""
