// A Majordomo client and worker on the npm package zeromq: node mdp.mjs client|worker ENDPOINT [COUNT]
import * as zmq from "zeromq";

const [role, endpoint, count = "100"] = process.argv.slice(2);
const socket = role === "client" ? new zmq.Request() : new zmq.Dealer();
socket.connect(endpoint);

if (role === "client") {
  for (let number = 0; number < Number(count); number++) {
    await socket.send(["MDPC01", "echo", `hello ${number}`, ""]);
    const [header, service, body, empty] = await socket.receive();
    if (`${header} ${service} ${body} ${empty.length}` !== `MDPC01 echo hello ${number} 0`) {
      throw new Error(`wrong reply: ${header} ${service} ${body}`);
    }
  }
  console.log(`${count} replies`);
  socket.close();
} else {
  await socket.send(["", "MDPW01", Buffer.from([1]), "echo"]);
  setInterval(() => socket.send(["", "MDPW01", Buffer.from([4])]).catch(() => {}), 1000);
  console.log("ready");
  for await (const [, , command, client, empty, ...body] of socket) {
    if (command[0] === 2) await socket.send(["", "MDPW01", Buffer.from([3]), client, empty, ...body]);
    if (command[0] === 5) throw new Error("the broker sent DISCONNECT");
  }
}
