"""The commands in the panels of the help, with the first words of each. So ``hookwire --help`` imports no command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PANELS", "module_of"]

PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Run": {
        "serve": "Run the hub: API, relay, delivery and sources in one process, on the embedded database unless one is "
            "configured.",
        "relay": "Run the relay alone: the sidecar that carries the outbox to Kafka, to AMQP and into the fan-out.",
        "deliver": "Run delivery alone. Any number of these processes may run.",
        "doctor": "Check settings, database, brokers, keys, the egress guard and the running hub, without changing "
            "anything.",
        "migrate": "Apply pending migrations. `hookwire serve` does the same when it starts; any number may run at "
            "once.",
        "rewrite": "Write the tables of erased events into new files, so that no freed bytes of them stay.",
        "broker": "Run a Majordomo broker for clients and workers of 7/MDP and 18/MDP. It needs no database.",
        "config": "Look at the settings, without connecting to anything.",
        "keys": "Make, list and revoke API keys.",
        "layout": "Partition groups of each sink, and the order scope: show and change them while relays run.",
    },
    "Publish and receive": {
        "publish": "Publish an event and print its id. A printed event is stored: the answer comes after COMMIT.",
        "subscribe": "Subscribe a callback to a topic or a pattern. Print its id and its signing secret, which is "
            "shown only now.",
        "listen": "Print events as they arrive, until Ctrl-C. An event that --forward does not answer with 2xx is "
            "delivered again.",
        "monitor": "Write a line for each event to an XMPP address or a room, until Ctrl-C.",
        "chat": "Serve topics as XMPP addresses until Ctrl-C: subscribe to one in any chat client, or send it a "
            "message.",
        "sync": "Make the hub's topics and subscriptions match a file. Options that the file leaves out stay "
            "unchanged.",
        "test-filter": "Ask the hub whether an event passes a filter. Exit code 0: it does; 1: it does not.",
        "consume": "Run a program for each message of a durable AMQP queue; it is acknowledged when the program exits "
            "with 0.",
        "subscriptions": "Subscriptions: list, show, pause, drain, resume, test, rotate their key, end.",
        "topics": "Topics: list, show, schema. `hookwire sync` changes their settings by a file.",
    },
    "See and mend": {
        "status": "Show what is wrong and since when: sinks, sources, work, audits of lakes, and the health of "
            "each subscription.",
        "attempts": "List the attempts of a delivery, or of all deliveries of an event, with the receiver's answer.",
        "undelivered": "List accepted events that are not delivered, with the reason and the next attempt. Exit code "
            "1: there is one.",
        "replay": "Send events again to a subscription, or dead letters to their subscriptions. Ctrl-C does not end "
            "the replay.",
        "erase": "Erase the contents of events: of one key of a topic, of one CloudEvents subject, or those that "
            "--event names.",
        "forgotten": "List the events that Kafka has and this database does not: a failover or a restore has taken "
            "them back.",
        "reincarnate": "Give a restored or cloned database a new name: the middle part of the ids of its new events.",
        "events": "Events: list by topic, key, time and outcome; show one; trace one.",
        "incidents": "Incidents, failures grouped by cause: list, show, recover, probe, acknowledge, resolve, ignore, "
            "reopen.",
        "holds": "Holds: list, show, retry, give up the records that wait behind a refused one.",
        "sinks": "Sinks: list, show, forecast, pause, resume where events go: kafka, amqp, webhooks, jobs.",
        "deadletters": "Holds (records that wait because a broker refused one) and dead letters (given up): list, "
            "show, retry, give up, purge.",
        "sources": "Webhooks of others: add, show, test, remove. Kafka sources: list, pause, resume, reset; refusals, "
            "retry and skip of refused records; forget what nobody reads.",
    },
    "Try": {
        "quickstart": "Subscribe, publish an event, receive it and ask for its state, on a running hub. Only the event "
            "stays.",
        "seed": "Publish sample events: orders of a few customers, each with the customer as its ordering key.",
        "prove": "Kill and pause own services under load, then count the events that their clients got: PASS, FAIL or "
            "NOT FINISHED.",
        "pump": "Write numbered records for a relay, and verify the records that arrive in Kafka.",
    },
    "Queues and tasks": {
        "work": "Run a program for each task, job or message. Exit code 0 means success, 100 a final failure, any "
            "other a failure.",
        "scale": "Start and stop workers by the rates at which tasks arrive and are completed.",
        "queues": "Queues: list, show, submit, peek, pause, resume, dead letters.",
        "jobs": "Jobs: enqueue, list, show, assign, delay, review, kinds, periodic.",
        "tasks": "Tasks: enqueue, list, show, cancel, dead tasks, kinds.",
    },
    "Services": {
        "call": "Ask a service and print its reply. The request is kept until a worker answers it, even if this "
            "command ends.",
        "services": "Services: list, show, set, disable, enable.",
        "requests": "Requests to services: list, show the reply, close.",
    },
    "The lake": {
        "pipeline": "The lake: archive the event stream, prove that nothing is missing, replay (needs the extra spark "
            "and Java).",
    },
}  # fmt: skip
"""In each panel the functions come before the groups, as typer prints them."""
_ELSEWHERE: Final = {
    "relay": "commands.serve", "deliver": "commands.serve", "rewrite": "commands.erase",
    "sync": "commands.syncing.sync", "test-filter": "commands.filter_check", "forgotten": "commands.mending.forgotten",
    "reincarnate": "commands.mending.reincarnate", "incidents": "commands.mending.incidents",
    "holds": "commands.mending.holds", "sinks": "commands.mending.sinks", "deadletters": "commands.mending.deadletters",
    "sources": "commands.sources.commands", "pipeline": "pipeline.commands",
}  # fmt: skip


def module_of(name: str) -> str:
    """Return the module of a command in ``app.cli``. It names the command's function so, with _ for -."""
    return _ELSEWHERE.get(name, f"commands.{name}")
