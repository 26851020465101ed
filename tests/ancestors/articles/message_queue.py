"""The queue of the article "Rolling your own message queue in MySQL", and a worker of it.

The paragraphs on the four operations: submit is an INSERT. Receive draws a random mark of 24 bits, UPDATEs the first
unmarked rows with it, and SELECTs the rows that have it. Accept is a DELETE of a row. Reject takes the mark away.

    message_queue.py submit HOST PORT USER PASSWORD DATABASE TABLE PAYLOAD...
    message_queue.py work   HOST PORT USER PASSWORD DATABASE TABLE COUNT
"""

import random
import sys

import pymysql

verb, host, port, user, password, database, table, *rest = sys.argv[1:]
connection = pymysql.connect(
    host=host, port=int(port), user=user, password=password, database=database, autocommit=True
)
cursor = connection.cursor()
if verb == "submit":
    for payload in rest:
        cursor.execute(f"INSERT INTO {table} (payload) VALUES (%s)", (payload,))
else:
    left = int(rest[0])
    while left > 0:
        mark = random.getrandbits(24)
        cursor.execute(f"UPDATE {table} SET claim = %s WHERE claim IS NULL ORDER BY id LIMIT 2", (mark,))
        cursor.execute(f"SELECT id, payload FROM {table} WHERE claim = %s ORDER BY id", (mark,))
        received = cursor.fetchall()
        for number, payload in received[:1]:
            print(payload.decode(), flush=True)
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", (number,))
            left -= 1
        cursor.execute(f"UPDATE {table} SET claim = NULL WHERE claim = %s", (mark,))
