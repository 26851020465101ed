-- Filters on content: apply one filter to one event, as the fan-out does.

-- name: test
SELECT CASE WHEN c.affordable THEN hookwire.passes(d.document, $1::text::jsonpath) END AS matches, c.affordable,
       d.document::text AS document
FROM (SELECT hookwire.is_affordable(hookwire.value_count($7), $1::text::jsonpath) AS affordable) AS c,
     (SELECT hookwire.filter_document($2, $3, $4, $5, $6::text::jsonb, $7) AS document) AS d;
