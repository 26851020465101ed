"""What Polars sees of tables of the lake; run by tests, with Polars in a folder of its own on the path.

    python -m tests.pipeline.polars_reader TABLE COLUMN

It prints the values of a column as a list in JSON.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    table, column = sys.argv[1:]
    polars = importlib.import_module("polars")
    print(json.dumps(sorted(polars.read_delta(table, columns=[column])[column].to_list())))


if __name__ == "__main__":
    main()
