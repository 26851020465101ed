"""One command per file; ``app.cli.main`` is the list of them.

Every command loads its settings, runs one coroutine and returns an exit code. The codes are 0 done, 1 findings or
failures, 2 wrong use, 3 a dependency is unreachable, 130 after Ctrl-C. Expected failures are exceptions with one
sentence and a code (``app.cli.failure``), which ``app.cli.main`` prints. Heavy imports stay inside the functions, so
that ``hookwire --help`` is quick.
"""
