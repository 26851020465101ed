"""The report: one HTML file with plots about deliveries, for people and without a network.

``chart`` draws (SVG inside the page, so that nothing has to be fetched or installed), ``page`` lays out, ``figures`` is
what both are given. ``app`` reads lake and database.
"""
