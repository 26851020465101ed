"""Verify and sign with the official package in Python; `scripts/interop_signatures.py` writes and reads the lines."""

import base64
import sys
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    secret, name, timestamp, body64, signature64 = line.split()
    body, signature = base64.b64decode(body64), base64.b64decode(signature64).decode()
    webhook, accepted = Webhook(secret), True
    try:
        webhook.verify(
            body, {"webhook-id": name, "webhook-timestamp": timestamp, "webhook-signature": signature}
        )  # fmt: skip
    except WebhookVerificationError:
        accepted = False
    print(str(accepted).lower(), webhook.sign(name, datetime.fromtimestamp(int(timestamp), UTC), body.decode()))
