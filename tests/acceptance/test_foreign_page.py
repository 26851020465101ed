"""Pages of other sites in a real browser, Chromium, against a real hub: FS-02. What the hub stored is the judge."""

from __future__ import annotations

from pathlib import Path

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, receiver, running_hub
from tests.hostile.browser import browsing, serve_site

__all__ = ["receiver", "running_hub"]

STORED = (
    "SELECT topic, convert_from(payload, 'UTF8') FROM hookwire.events WHERE topic NOT LIKE 'hookwire.%' ORDER BY id"
)
SUBSCRIBED = "SELECT count(*) FROM hookwire.subscriptions UNION ALL SELECT count(*) FROM hookwire.intents"

# Each attempt's outcome: "opaque" says that the hub answered and the page may not read what.
SCRIPT = """<!doctype html><title>page</title><body><iframe name="away"></iframe><script>
const outcomes = {};
async function attempt(name, url, options) {
  try { const answer = await fetch(url, options); outcomes[name] = [answer.type, answer.status]; }
  catch (error) { outcomes[name] = "blocked"; }
}
function submitted(url, fields) {
  const form = document.createElement("form");
  Object.assign(form, {method: "post", action: url, target: "away"});
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement("input");
    Object.assign(input, {type: "hidden", name, value});
    form.append(input);
  }
  document.body.append(form);
  return new Promise(done => { document.querySelector("iframe").onload = done; form.submit(); });
}
(async () => {
  %s
  await fetch("/report", {method: "POST", body: JSON.stringify(outcomes)});
})();
</script>"""

FOREIGN = """
  const hub = "%(hub)s", blind = {method: "POST", mode: "no-cors"};
  await submitted(hub + "/hub", {"hub.mode": "subscribe", "hub.topic": hub + "/topics/a",
    "hub.callback": "%(callback)s"});
  outcomes.form = "sent";
  await attempt("publish", hub + "/topics/a/events", {...blind, body: "forged"});
  await attempt("give up", hub + "/deliveries/%(delivery)s/give-up", blind);
  await attempt("subscribe by JSON", hub + "/subscriptions", {method: "POST", body: "{}",
    headers: {"content-type": "application/json"}});
"""
BLIND = ["opaque", 0]

REBOUND = """
  await attempt("read", "/subscriptions");
  await attempt("publish", "/topics/a/events", {method: "POST", body: "forged"});
  await attempt("subscribe", "/subscriptions", {method: "POST", headers: {"content-type": "application/json"},
    body: JSON.stringify({topic: "#", callback: "%(callback)s"})});
"""

SHOP = """
  const headers = {"content-type": "application/json", "hookwire-key": "4711", "idempotency-key": "first"};
  await attempt("publish", "%(hub)s/topics/orders/events", {method: "POST", headers, body: '{"order": 4711}'});
  await attempt("subscribe", "%(hub)s/subscriptions", {method: "POST", headers, body: "{}"});
"""


async def test_a_page_of_another_site_changes_nothing(running_hub: RunHub, receiver: Receiver, tmp_path: Path) -> None:
    """FS-02 a, b, d: a form, requests without a preflight, a verb without a body."""
    receiver.status = 500
    async with serve_site() as site, running_hub(ALL_ROLES) as hub:
        await hub.subscribe("orders.*", receiver.callback)
        await hub.publish("orders.created", b"ours")
        delivery = (await hub.until("/deliveries?state=retrying", lambda found: found["items"]))["items"][0]["id"]
        names = {"hub": hub.url, "callback": receiver.callback, "delivery": delivery}
        site.pages["/page"] = SCRIPT % (FOREIGN % names)

        async with browsing(f"http://evil.example:{site.port}/page", tmp_path / "profile"):
            outcomes = await site.report()

        assert outcomes == {
            "form": "sent",
            "publish": BLIND,
            "give up": BLIND,
            "subscribe by JSON": "blocked",
        }
        assert (await hub.sql(STORED), await hub.sql(SUBSCRIBED)) == ([("orders.created", "ours")], [(1,), (0,)])
        assert len((await hub.client.get("/deliveries?state=retrying")).json()["items"]) == 1


async def test_a_page_whose_name_is_pointed_at_the_hub_reaches_nothing(
    running_hub: RunHub, receiver: Receiver, tmp_path: Path
) -> None:
    """FS-02 f: DNS rebinding. The page's own origin leads to the hub, so the browser holds nothing back."""
    async with serve_site() as site, running_hub() as hub:
        site.behind = hub.client.base_url.port
        site.pages["/page"] = SCRIPT % (REBOUND % {"callback": receiver.callback})

        async with browsing(f"http://evil.example:{site.port}/page", tmp_path / "profile"):
            outcomes = await site.report()

        assert outcomes == {"read": ["basic", 421], "publish": ["basic", 421], "subscribe": ["basic", 421]}
        assert (await hub.sql(STORED), await hub.sql(SUBSCRIBED)) == ([], [(0,), (0,)])


async def test_a_page_of_the_hubs_own_name_is_served(running_hub: RunHub, receiver: Receiver, tmp_path: Path) -> None:
    """FS-02: the same page under a name that is the hub's."""
    async with serve_site() as site, running_hub(hosts="ours.example") as hub:
        site.behind = hub.client.base_url.port
        site.pages["/page"] = SCRIPT % (REBOUND % {"callback": receiver.callback})

        async with browsing(f"http://ours.example:{site.port}/page", tmp_path / "profile"):
            outcomes = await site.report()

        assert outcomes == {"read": ["basic", 200], "publish": ["basic", 202], "subscribe": ["basic", 201]}
        assert (await hub.sql(STORED), await hub.sql(SUBSCRIBED)) == ([("a", "forged")], [(1,), (0,)])


async def test_a_page_of_a_named_origin_publishes(running_hub: RunHub, tmp_path: Path) -> None:
    """FS-02: HOOKWIRE_ORIGINS; JSON and headers of ours need a preflight, and the page reads the answer."""
    async with serve_site() as site, running_hub(origins=f"http://shop.example:{site.port}") as hub:
        site.pages["/page"] = SCRIPT % (SHOP % {"hub": hub.url})

        async with browsing(f"http://shop.example:{site.port}/page", tmp_path / "profile"):
            outcomes = await site.report()

        assert (outcomes, await hub.sql(STORED), await hub.sql(SUBSCRIBED)) == (
            {"publish": ["cors", 202], "subscribe": "blocked"},
            [("orders", '{"order": 4711}')],
            [(0,), (0,)],
        )
