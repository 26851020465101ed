// Verify and sign with the official package of npm; scripts/interop_signatures.py writes and reads the lines.
import { readFileSync } from "node:fs";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const [secret, id, timestamp, body64, signature64] = line.split(" ");
  const body = Buffer.from(body64, "base64");
  const webhook = new Webhook(secret);
  let accepted = true;
  try {
    webhook.verify(body, {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": Buffer.from(signature64, "base64").toString(),
    });
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    accepted = false;
  }
  console.log(accepted, webhook.sign(id, new Date(Number(timestamp) * 1000), body));
}
