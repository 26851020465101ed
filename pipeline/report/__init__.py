"""The report: one HTML file with plots about deliveries, which needs no network.

::

    queries.sql --> queries --> figures --> page <-- chart, markup, audit, page.css

``figures`` holds the data. ``chart`` draws SVG inside the page, so that no library has to be fetched or installed.
``page`` builds the document, and prints the queries of its numbers. ``app`` reads lake and database.
"""
