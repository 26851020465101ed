// A Titanic client (9/TSP) on the npm package zeromq: node titanic.mjs ENDPOINT COUNT
// It stores COUNT requests, fetches each reply by its id, closes it and sees that it is unknown then.
import { setTimeout as pause } from "node:timers/promises";
import * as zmq from "zeromq";

const [endpoint, count] = process.argv.slice(2);
const socket = new zmq.Request();
socket.connect(endpoint);

async function call(service, ...body) {
  await socket.send(["MDPC01", service, ...body]);
  const [header, name, ...answer] = (await socket.receive()).map(String);
  if (header !== "MDPC01" || name !== service) throw new Error(`malformed reply: ${header} ${name}`);
  return answer;
}

function require(answer, ...wanted) {
  if (JSON.stringify(answer) !== JSON.stringify(wanted)) throw new Error(`${answer} instead of ${wanted}`);
}

async function fetched(id) {
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await pause(20)) {
    const answer = await call("titanic.reply", id);
    if (answer[0] !== "300") return answer;
  }
  throw new Error(`no reply to ${id} within a minute`);
}

const ids = [];
for (let number = 0; number < Number(count); number++) {
  const [status, id] = await call("titanic.request", "echo", `hello ${number}`, "");
  if (status !== "200" || !/^[0-9a-f]{32}$/.test(id)) throw new Error(`titanic.request answered ${status} ${id}`);
  ids.push(id);
}
for (const [number, id] of ids.entries()) {
  require(await fetched(id), "200", `hello ${number}`, "");
  require(await call("titanic.close", id), "200");
  require(await call("titanic.close", id), "200");
  require(await call("titanic.reply", id), "400");
}
console.log(`${count} stored replies`);
socket.close();
