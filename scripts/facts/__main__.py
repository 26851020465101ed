"""Checks facts in docstrings, comments and pages of the files that differ from main; with ``--all`` of all files."""

import os
import sys

from scripts.facts.files import all_files, changed_files
from scripts.facts.rules import findings


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if there is one."""
    is_all = "--all" in arguments or bool(os.environ.get("CI"))
    listed = all_files() if is_all else changed_files()
    found = [finding for name in listed for finding in findings(name, is_changed=not is_all)]
    print("\n".join(found) or f"facts: {len(listed)} files, no findings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
