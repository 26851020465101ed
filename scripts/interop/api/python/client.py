"""Run beside the package that openapi-python-client generates: publish, subscribe, rotate, list; prints what it got."""

from __future__ import annotations

import json
import sys
from typing import Any

from hookwire_client import AuthenticatedClient
from hookwire_client.api.deliveries import deliveries_list_undelivered
from hookwire_client.api.events import events_get, events_publish, events_publish_batch
from hookwire_client.api.subscriptions import (
    subscriptions_create,
    subscriptions_list,
    subscriptions_list_keys,
    subscriptions_rotate_key,
)
from hookwire_client.models import BatchEvent, SigningKeyIn, SubscriptionIn, UndeliveredPage


def main(url: str, callback: str) -> dict[str, Any]:
    """What each operation returned, in a few words."""
    client: Any = AuthenticatedClient(base_url=url, token="hwk_of_nobody")
    made: Any = subscriptions_create.sync(client=client, body=SubscriptionIn(topic="orders", callback=callback))
    accepted: Any = events_publish.sync("orders", client=client, body={"order": 4711}, hookwire_key="k")
    refused: Any = events_publish.sync("a..b", client=client, body=1)
    events = [BatchEvent(key="k", data={"order": number}) for number in (1, 2)]
    batch: Any = events_publish_batch.sync("orders", client=client, body=events)
    rotated: Any = subscriptions_rotate_key.sync(made.id, client=client, body=SigningKeyIn())
    event: Any = events_get.sync(accepted.id, client=client)
    keys: Any = subscriptions_list_keys.sync(made.id, client=client)
    subscriptions: Any = subscriptions_list.sync(client=client)
    undelivered: Any = deliveries_list_undelivered.sync(client=client)
    return {
        "event": [event.topic, event.key, event.payload],
        "refused": [refused.status, refused.type_.rpartition("/")[2]],
        "batch": [item.outcome.value for item in batch],
        "rotated": rotated.number,
        "keys": [key.number for key in keys.items],
        "subscriptions": [[one.id == made.id, one.state.value] for one in subscriptions.items],
        "undelivered": isinstance(undelivered, UndeliveredPage),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
