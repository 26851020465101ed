-- Filters on content: apply one filter to one event, as the fan-out does.

-- name: test
SELECT hookwire.passes(d.document, $1::text::jsonpath) AS matches, d.document::text AS document
FROM (SELECT hookwire.filter_document($2, $3, $4, $5, $6::text::jsonb, $7) AS document) AS d;
