// A subscriber on the npm package pubsubhubbub: node subscribe_many.js HUB TOPIC_PREFIX COUNT
// It subscribes to COUNT topics at once, prints how many were confirmed and denied, then each notification.
"use strict";

const pubsubhubbub = require("pubsubhubbub");

const [hub, prefix, count] = process.argv.slice(2);
const wanted = Number(count);
const found = { confirmed: 0, denied: 0 };
const subscriber = pubsubhubbub.createServer({});

function note(kind) {
  found[kind] += 1;
  if (found.confirmed + found.denied === wanted) console.log(JSON.stringify(found));
}

subscriber.on("subscribe", () => note("confirmed"));
subscriber.on("denied", ({ error }) => {
  if (found.denied === 0) console.error(error && `${error.message}: ${error.responseBody}`);
  note("denied");
});
subscriber.on("feed", (data) => console.log(`${data.topic} ${data.feed}`));
subscriber.on("listen", () => {
  subscriber.callbackUrl = `http://127.0.0.1:${subscriber.server.address().port}`;
  for (let number = 0; number < wanted; number++) subscriber.subscribe(`${prefix}${number}`, hub);
});
subscriber.listen(0, "127.0.0.1");
