"""A worker of tasks as the article on transactional tasks has it: plain SQL by psycopg, and RabbitMQ by pika.

It imports nothing of hookwire. The paragraph on the worker: a message has the id of a task. The worker locks the row of
this id, looks whether `start_time` is NULL, sets it, and commits. Only then it works. It deletes the row at the end.

The paragraphs on races: a message may be there before its row is committed. So a worker that finds no row looks again
after the retry time. After the give-up time it forgets the message, because the cleaner sends another one. It forgets
a message at once whose task is started or finished.

    worker.py postgresql://hookwire@localhost/hookwire amqp://user:secret@rabbit/
"""

import sys
import time

import pika
import psycopg

QUEUE = "task_queue"
RETRY_SECONDS = 0.5
TRIES = 4  # the give-up time is their sum


def claim(database: psycopg.Connection, task: str) -> str | None:
    """Mark a task as started and return its description; None if it is not there, or not ours."""
    for _ in range(TRIES):
        with database.transaction():
            row = database.execute(
                "SELECT description, start_time FROM hookwire.tasks WHERE id = %s FOR UPDATE", (task,)
            ).fetchone()
            if row is not None and row[1] is None:
                database.execute("UPDATE hookwire.tasks SET start_time = now() WHERE id = %s", (task,))
                return str(row[0])
        if row is not None:
            return None
        time.sleep(RETRY_SECONDS)
    return None


def main() -> None:
    """Work on one task after the other, for ever."""
    database = psycopg.connect(sys.argv[1], autocommit=True)
    channel = pika.BlockingConnection(pika.URLParameters(sys.argv[2])).channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.basic_qos(prefetch_count=1)
    print("ready", flush=True)
    for method, _, body in channel.consume(QUEUE):
        task = body.decode()
        description = claim(database, task)
        channel.basic_ack(method.delivery_tag)  # the row is claimed: the message has done its work
        if description is not None:
            print(description, flush=True)
            database.execute("DELETE FROM hookwire.tasks WHERE id = %s", (task,))


if __name__ == "__main__":
    main()
