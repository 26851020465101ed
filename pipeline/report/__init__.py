"""The report: one HTML file that says how well was delivered, with plots, for a person and without a network.

``chart`` draws (SVG inside the page, so that nothing has to be fetched or installed), ``page`` lays out, ``figures`` is
what both are given. Who reads lake and database is ``app``.
"""
