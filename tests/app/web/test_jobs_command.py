"""The commands `hookwire jobs` and `hookwire work --jobs` against a running hub (JB-56, JB-82)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.conftest import RunHub
from tests.app.web.test_tasks import command


async def test_an_office_by_the_command(running_hub: RunHub, database_url: str, tmp_path: Path) -> None:
    """GM-07, JB-56: assign, delay, send back, switch to machines; `show` says who did what."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\ngrep -q 4712 && [ "$HOOKWIRE_JOB_KIND" = check ]\n')
    program.chmod(0o755)
    async with running_hub() as hub:

        async def jobs(*words: str) -> str:
            url = str(hub.client.base_url)
            code, out, err = await command("jobs", *words, "--url", url, database_url=database_url, USER="ada")
            assert code == 0, err
            return out.strip()

        await jobs("kind", "check", "--set", "automation=manual", "--set", "needs_review=true")
        job = await jobs("enqueue", "check", '{"invoice": 4711}')
        steps = [
            await jobs("assign", job, "--to", "bob"),
            await jobs("delay", job, "--until", "2031-07-01T09:00", "--zone", "Europe/Berlin"),
            await jobs("retry", job),
            await jobs("finish", job, "--result", '{"ok": true}'),
            await jobs("send-back", job, "--why", "one page is missing"),
            await jobs("finish", job),
            await jobs("approve", job),
        ]
        await jobs("kind", "check", "--set", "automation=automatic")
        limits = ("--attempts", "3", "--timeout", "60", "--deadline", "600")
        follow_ups = ("--on-status", "a", "--on-complete", "b", "--on-retry", "c", "--on-fail", "d")
        other = await jobs("enqueue", "check", '{"invoice": 4712}', *limits, *follow_ups)
        kept = await hub.sql(
            "SELECT j.attempts_max, j.run_seconds, j.deadline_at > now() + interval '9 min', r.callbacks::text"
            f" FROM hookwire.jobs j JOIN hookwire.job_requests r ON r.job_id = j.id WHERE j.id = '{other}'"
        )
        words = ("work", "--jobs", "--kind", "check", "--count", "1", "--", str(program))
        worked = await command(*words, database_url=database_url)
        listed = json.loads(await jobs("list", "--kind", "check", "--json"))
        shown = await jobs("show", job)
        stats = json.loads(await jobs("stats", "--json"))
        await jobs("periodic", "set", "morning", "30 6 * * mon-fri", "check")
        periodic = json.loads(await jobs("periodic", "list"))

    states = ["assigned", "scheduled", "assigned", "review", "assigned", "review", "completed"]
    assert [step.rpartition(" ")[2] for step in steps] == states
    assert (worked[0], {found["id"]: found["state"] for found in listed}) == (0, {job: "completed", other: "completed"})
    assert ("one page is missing" in shown, '{"invoice": 4711}' in shown) == (True, True)
    [(attempts, seconds, has_deadline, callbacks)] = kept
    assert (attempts, seconds, has_deadline, json.loads(callbacks)) == (
        3, 60.0, True, {"on_status": "a", "on_complete": "b", "on_retry": "c", "on_fail": "d"},
    )  # fmt: skip
    assert (len(stats["ended"]), periodic[0]["name"]) == (2, "morning")
