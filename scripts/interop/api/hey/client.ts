// Run by scripts/interop_clients.py beside the client that @hey-api/openapi-ts generates: publish, subscribe, rotate,
// list. It prints as JSON what it got. Under `strict`, each field and each argument is checked against the document.
import { client } from "./hookwire/client.gen.js";
import {
  deliveriesListUndelivered,
  eventsGet,
  eventsPublish,
  eventsPublishBatch,
  subscriptionsCreate,
  subscriptionsList,
  subscriptionsListKeys,
  subscriptionsRotateKey,
} from "./hookwire/sdk.gen.js";
import type { Accepted, BatchItem } from "./hookwire/types.gen.js";

const [baseUrl, callback] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl, auth: "hwk_of_nobody" });

const strict = { throwOnError: true } as const;
const made = (await subscriptionsCreate({ ...strict, body: { topic: "orders", callback } })).data;
const accepted: Accepted = (
  await eventsPublish({ ...strict, path: { topic: "orders" }, headers: { "Hookwire-Key": "k" }, body: { order: 4711 } })
).data;
const refused = await eventsPublish({ path: { topic: "a..b" }, body: 1 });
const events = [1, 2].map((order) => ({ key: "k", data: { order } }));
const batch: BatchItem[] = (await eventsPublishBatch({ ...strict, path: { topic: "orders" }, body: events })).data;
const path = { subscription_id: made.id };
const rotated = (await subscriptionsRotateKey({ ...strict, path, body: {} })).data;
const keys = (await subscriptionsListKeys({ ...strict, path })).data;
const event = (await eventsGet({ ...strict, path: { event_id: accepted.id } })).data;
const subscriptions = (await subscriptionsList(strict)).data;
const undelivered = (await deliveriesListUndelivered({ ...strict, query: { outcome: "waiting" } })).data;

console.log(
  JSON.stringify({
    event: [event.topic, event.key, event.payload],
    refused: [refused.error?.status, refused.error?.type.split("/").pop()],
    batch: batch.map((item) => item.outcome),
    rotated: rotated.number,
    keys: keys.items.map((key) => key.number),
    subscriptions: subscriptions.items.map((found) => [found.id === made.id, found.state]),
    undelivered: Array.isArray(undelivered.items),
  }),
);
