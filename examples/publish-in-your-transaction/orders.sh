#!/bin/sh
# Plain SQL, from a shell: an order and the event that tells of it, in one transaction. Any language with a PostgreSQL
# driver does the same; there is nothing to install.
#
#     DATABASE_URL=postgresql://user:secret@host/shop ./orders.sh ID CUSTOMER TOTAL
#
# Prints the event's id. When the order is refused, so is the event, and the exit code is not 0.
set -eu
psql "$DATABASE_URL" --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 \
    --set=id="$1" --set=customer="$2" --set=total="$3" <<'SQL'
BEGIN;
INSERT INTO orders VALUES (:'id', :'customer', :'total');
INSERT INTO hookwire.stash (topic, key, payload, content_type)
VALUES ('orders.created', :'customer',
        json_build_object('id', :'id'::bigint, 'customer', :'customer', 'total', :'total'::numeric), 'application/json')
RETURNING event_id;
COMMIT;
SQL
