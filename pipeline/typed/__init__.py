"""typed: columns made of the JSON of topics.

::

    JSON Schema of a topic --shape--> columns of its tables

    bronze, one day --fit--> typed rows, rejected rows

``drift`` shows how the JSON of the topics changed from day to day; ``proposal`` makes a first schema of it. ``views``
prints the SQL that names the tables.
"""
