"""What of the suite goes to one process."""


def share(nodeid: str) -> str:
    """Return a test's share: its file; or the pipeline's files, which then make one Spark session."""
    file = nodeid.partition("::")[0]
    return "tests/pipeline" if file.startswith("tests/pipeline/") else file
