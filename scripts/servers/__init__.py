"""The real servers of the tests, the demo and a developer's afternoon: PostgreSQL twice, MariaDB, Kafka, RabbitMQ,
Prosody.

Nothing here needs a container engine, and nothing is mocked. Each server is an ordinary child process in a session
of its own, with its own folder (data, configuration, log) and its own loopback ports, so that several suites run side
by side and a fault can be injected with a signal (DESIGN decision 17; IT-01, IT-08 to IT-11; HN-01).

::

               start                      pause (SIGSTOP)
     down ---------------> ready --------------------------> paused
      ^   same ports, data   |  <--------------------------    |
      |                      |        resume (SIGCONT)         |
      +----------------------+---------------------------------+
        stop (orderly), kill (SIGKILL), or its owner is gone

Every verb acts on the whole process tree, because PostgreSQL's backends and the Erlang machine's helpers leave the
process group of their parent. "Ready" always means that the server answered a greeting in its own protocol; a port
that merely accepts is not enough for PostgreSQL in recovery or RabbitMQ in boot.

Two kinds of owner:

* A test session owns its servers. If it dies, even by SIGKILL, a small warden process notices that its pipe closed and
  ends every tree and folder that the session left (`warden`). The kernel's parent-death signal would be shorter, but it
  fires when the *thread* that started a child ends, and fault tests restart servers from short-lived threads.
* `python -m scripts.servers up` starts servers that outlive it. What is needed to find them again (pid, start time,
  ports) is in each folder's `server.json`; a pid whose start time differs is a stranger and is never signalled.

Where what is: `process` is one server's life, `tree` its processes, `probe` the question whether it answers, `port` a
free one, `warden` the clean-up; `postgres`, `mariadb`, `kafka` with `kafka_jars` and `kafka_classes`, `rabbitmq` with
`epmd`, `prosody` are the servers;
`fleet` gives them their names, `given` stands for a server whose address the environment supplied.
"""
