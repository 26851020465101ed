"""``python -m app``, and the file that ``spark-submit`` is given: the command ``hookwire``."""

from app.cli.main import main

if __name__ == "__main__":
    main()
