"""publishing takes events over HTTP: it reads the body and headers, and answers with ids and notices.

It is no part of the framework's routes, so that a publish passes as little code as possible.
"""
