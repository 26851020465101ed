// Run by scripts/interop_clients.py beside the schema.d.ts that openapi-typescript generates: publish, subscribe, rotate,
// list. It prints as JSON what it got. Under `strict`, each field and each argument is checked against the document.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Accepted = components["schemas"]["Accepted"];
type BatchItem = components["schemas"]["BatchItem"];

const [baseUrl, callback] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer hwk_of_nobody" } });

function there<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const made = there(await client.POST("/subscriptions", { body: { topic: "orders", callback } }));
const accepted: Accepted = there(
  await client.POST("/topics/{topic}/events", {
    params: { path: { topic: "orders" }, header: { "Hookwire-Key": "k" } },
    body: { order: 4711 },
  }),
);
const refused = await client.POST("/topics/{topic}/events", { params: { path: { topic: "a..b" } }, body: 1 });
const batch: BatchItem[] = there(
  await client.POST("/topics/{topic}/batch", {
    params: { path: { topic: "orders" } },
    body: [1, 2].map((order) => ({ key: "k", data: { order } })),
  }),
);
const one = { params: { path: { subscription_id: made.id } } };
const rotated = there(await client.POST("/subscriptions/{subscription_id}/keys", { ...one, body: {} }));
const keys = there(await client.GET("/subscriptions/{subscription_id}/keys", one));
const event = there(await client.GET("/events/{event_id}", { params: { path: { event_id: accepted.id } } }));
const subscriptions = there(await client.GET("/subscriptions"));
const undelivered = there(await client.GET("/undelivered", { params: { query: { outcome: "waiting" } } }));

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
