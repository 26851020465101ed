"""The pages of people who work on jobs: their own jobs, the pool and the review."""

from __future__ import annotations

from tests.app.conftest import RunHub
from tests.app.web.console.harness import browsing
from tests.app.web.test_authentication import authorized, bearer


async def test_each_person_sees_their_own_work_and_only_acts_that_the_key_permits(running_hub: RunHub) -> None:
    """CN-13, CN-14: a reader has the lists without acts, and without contents."""
    async with (
        running_hub(access="keys") as hub,
        browsing(hub, "admin", name="ada") as ada,
        browsing(hub, "read") as reader,
        browsing(hub, "read", "work", name="bob") as bob,
    ):
        operator = authorized(await bearer(hub, "admin"))
        await hub.client.put("/job-kinds/k", json={"needs_review": True, "automation": "manual"}, headers=operator)
        for number in range(3):
            await ada.send("jobs/new", kind="k", args=f'{{"invoice": {number}}}')
        newest, second, third = [one["id"] for one in (await hub.client.get("/jobs", headers=operator)).json()["items"]]
        await ada.send(f"jobs/{newest}/assign")
        await ada.send(f"jobs/{newest}/finish", result='{"pages": 2}')
        await ada.send(f"jobs/{second}/assign")
        lists = ("my-work", "pool", "review")
        seen = {name: [await one.page(name) for one in (ada, bob, reader)] for name in lists}
        links = {
            name: [[link for link in page.links if link.startswith("jobs/")] for page in pages]
            for name, pages in seen.items()
        }

        assert links["my-work"] == [
            [f"jobs/{second}", *(f"jobs/{second}/{act}" for act in ("finish", "delay", "unassign"))], [], [],
        ]  # fmt: skip
        assert links["pool"] == [[f"jobs/{third}", f"jobs/{third}/assign"]] * 2 + [[f"jobs/{third}"]]
        assert links["review"] == [
            [f"jobs/{newest}", *(f"jobs/{newest}/{act}" for act in ("approve", "send-back"))]
        ] * 2 + [[f"jobs/{newest}"]]  # fmt: skip
        assert ['{"invoice": 0}' in page.text for page in seen["pool"]] == [True, False, False]
        assert ['{"pages": 2}' in page.text for page in seen["review"]] == [True, False, False]
