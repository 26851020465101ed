"""`docs/how-to/queue-in-mysql.md` is followed to its end on a real MariaDB."""

import asyncio
import os
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
from pymysql.constants import CLIENT

from tests.contract.queues.places import address

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "queue-in-mysql.md"
BLOCK = re.compile(r"^```(sh|sql|python) follow\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


async def test_the_page_is_followed_to_its_end(tmp_path: Path, mariadb_url: str) -> None:
    """JB-86, JT-01: the counts of the article, then a program for the message of the command; all are archived."""
    at, name = address(mariadb_url), urlsplit(mariadb_url).path[1:]
    python: dict[str, Any] = {}
    printed: list[str] = []
    python["print"] = lambda *words: printed.append(" ".join(map(str, words)))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    connect = 'host="127.0.0.1", user="shop", password="secret", database="shop"'
    named = ", ".join(f"{key}={value!r}" for key, value in {**at, "database": name}.items())
    with closing(pymysql.connect(**at, database=name, autocommit=True, client_flag=CLIENT.MULTI_STATEMENTS)) as sql:
        for language, text in BLOCK.findall(PAGE.read_text()):
            if language == "sql":
                with sql.cursor() as cursor:
                    cursor.execute(text)
                    while cursor.nextset():
                        pass
            elif language == "python":
                exec(text.replace(connect, named), python)
            else:
                process = await asyncio.create_subprocess_exec(
                    "bash", "-euc", text.replace("mysql://shop:secret@127.0.0.1/shop", mariadb_url), cwd=tmp_path,
                    env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                )  # fmt: skip
                output, _ = await process.communicate()
                printed.append(output.decode())
        with sql.cursor() as cursor:
            cursor.execute("SELECT payload FROM mail_archive ORDER BY id")
            archived = [row[0].decode() for row in cursor.fetchall()]
        python["connection"].close()

    assert printed[:5] == ["4 wait", "3 wait", "3 wait", "1 wait", "0 wait"]
    assert re.search(r"msg_5\n.*accepted 1, rejected 0.*mail +0 +0 +0 +0", printed[5], re.DOTALL), printed[5]
    assert archived == ["1", "2", "3", "4", '{"to": "ada@example.org"}']
