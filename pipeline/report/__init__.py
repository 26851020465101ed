"""The report: one HTML file with plots about deliveries, which needs no network.

``figures`` holds the data. ``chart`` draws SVG inside the page, so that no library has to be fetched or installed.
``page`` builds the document. ``app`` reads lake and database.
"""
