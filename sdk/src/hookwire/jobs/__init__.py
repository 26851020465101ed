"""Jobs, tasks and message queues in the caller's database, on the caller's connection.

::

    BEGIN;  your rows;  enqueue(connection, "mail.send", {"order": 1});  COMMIT;    the job exists iff you commit

    handlers = Handlers()                           which function runs which kind
    await JobWorker(SqlJobs(pool), handlers).run()  or HttpJobs("https://hub.example", key)

    queue = Queue("thumbnails")
    queue.submit(connection, {"image": 7})          in your transaction
    for message in queue.receive(connection, 10):   held until the lease ends
        queue.accept(connection, [message])         or queue.reject(connection, [message], delay_seconds=60)

Every function takes a connection of asyncpg, psycopg 3, SQLAlchemy or Django. Await the result if the connection is
asynchronous. The rules are SQL functions of the schema ``hookwire``, so a failure is an exception of the driver. Its
SQLSTATE is 22023 (invalid argument), 42704 (unknown queue or kind), HW001 (stale receipt) or HW003 (too large).

A :class:`Queue` also takes a connection of pymysql or aiomysql. Then it is a table in MariaDB or MySQL.
"""

from hookwire.call import NotInTransaction
from hookwire.jobs.handlers import Handlers
from hookwire.jobs.http_jobs import HttpJobs
from hookwire.jobs.job import Failed, Job, Snoozed, enqueue
from hookwire.jobs.job_worker import JobWorker
from hookwire.jobs.messages.message import Message
from hookwire.jobs.messages.message_queue import Queue
from hookwire.jobs.sql_jobs import SqlJobs
from hookwire.jobs.task import enqueue_task
from hookwire.jobs.worker import Refused, Worker

__all__ = [
    "Failed",
    "Handlers",
    "HttpJobs",
    "Job",
    "JobWorker",
    "Message",
    "NotInTransaction",
    "Queue",
    "Refused",
    "Snoozed",
    "SqlJobs",
    "Worker",
    "enqueue",
    "enqueue_task",
]
