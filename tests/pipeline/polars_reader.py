"""What Polars sees of tables of the lake; run by tests, with Polars in a folder of its own on the path.

    python -m tests.pipeline.polars_reader TABLE COLUMN OPTIONS

It prints the values of a column as a list in JSON. The options of the store are in JSON, too.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    table, column, options = sys.argv[1:]
    polars = importlib.import_module("polars")
    found = polars.read_delta(table, columns=[column], storage_options=json.loads(options) or None)
    print(json.dumps(sorted(found[column].to_list())))


if __name__ == "__main__":
    main()
