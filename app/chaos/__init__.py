"""The witness: the clients' logs, and a checker that trusts only them (OR-01..OR-04, OR-11, OR-12).

    writer, one per key                      sinks: Kafka reader, AMQP reader, webhook receiver
      | publishes (run, topic, key, n)          | read the mark from the payload
      v                                         v
    history.jsonl                            arrivals.jsonl, dead letters from the API
      one line per attempt:                     one line per record, in the order of arrival
      ok | fail | unknown                       |
      |                                         |
      '------------------> check() <------------'      pure: logs in, counts out
                              |
              accepted  delivered  lost  invented  duplicated  inverted  stale term

The system's own counters are not used. The truth about order is the counter ``n``. A key has one writer, which waits
for each answer before it sends the next event. So the order of ``n`` *is* the commit order of that key. An attempt
without a clear answer (time-out, 5xx, reset) is unknown: the writer repeats it with the same Idempotency-Key until it
is ok. If it never is, the event may exist or not, but all sinks must agree.

The checker knows three promises (RR-01): ``record`` (a repeat follows directly on its first), ``batch`` and
``unordered``. With ``batch`` a repeat is a run from the lowest record that was not yet purged; first occurrences rise
without loss.

Logs are JSON lines, each written by one system call, so they survive the death of the writer; a torn last line is
dropped.  ``hookwire prove``, the fault suite and the soak runs all use this package.
"""
