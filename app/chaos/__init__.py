"""The witness: what the clients saw, and a judge that believes nobody else (OR-01..OR-04, OR-11, OR-12).

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

The system's own counters are never asked.  The truth about order is the counter ``n``: a key has one writer, and it
waits for each answer before it sends the next, so the order of ``n`` *is* the commit order of that key.  An attempt
without a clear answer (time-out, 5xx, reset) is unknown: the writer repeats it with the same Idempotency-Key until it
is ok; if it never is, the event may be there or not, but not half: all sinks agree in the end.

The checker knows three promises (RR-01): ``record`` (a repeat follows directly on its first), ``batch`` (a repeat is a
run from the lowest record that was not yet purged; first occurrences rise without loss) and ``unordered``.

Logs are JSON lines, each written by one system call, so they survive the death of the writer; a torn last line is
dropped.  ``hookwire prove``, the fault suite and the soak runs all use this package.
"""
