"""The real servers of the tests, the demo and a developer's afternoon: PostgreSQL twice, MariaDB, Kafka, RabbitMQ,
Prosody.

Nothing here needs a container engine, and nothing is mocked. Each server is an ordinary child process with its own
session, its own folder (data, configuration, log) and its own loopback ports. So several suites run side by side, and a
signal can inject a fault (IT-01, IT-08 to IT-11; HN-01).

::

               start                      pause (SIGSTOP)
     down ---------------> ready --------------------------> paused
      ^   same ports, data   |  <--------------------------    |
      |                      |        resume (SIGCONT)         |
      +----------------------+---------------------------------+
        stop (orderly), kill (SIGKILL), or its owner is gone

Every verb acts on the whole process tree, because PostgreSQL's backends and the Erlang machine's helpers leave the
process group of their parent. "Ready" always means that the server answered in its own protocol. A port that only
accepts is not enough for PostgreSQL in recovery or RabbitMQ in boot.

Two kinds of owner:

* A test session owns its servers. If it dies, even by SIGKILL, a small warden process notices its closed pipe. It ends
  every tree and removes every folder of the session (`warden`). The kernel's parent-death signal would be shorter. But
  it fires at the end of the *thread* that started a child, and fault tests restart servers from short-lived threads.
* `python -m scripts.servers up` starts servers that outlive it. Each folder's `server.json` has pid, start time and
  ports, to find them again. A pid with another start time is a foreign process and never gets a signal.

The files: `process` is one server's life, `tree` its processes, `probe` the check whether it answers. `port` finds a
free port, and `warden` cleans up. The servers are `postgres` (also as a standby
that is promoted), `mariadb`, `kafka` with `kafka_jars` and `kafka_classes`,
`rabbitmq` with `epmd`, and `prosody`. `fleet` names them, and `given` stands for a server whose address the environment
has.
"""
