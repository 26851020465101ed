"""Run the command ``hookwire`` as ``python -m app.cli``; ``spark-submit`` takes this file too."""

from app.cli.main import main

if __name__ == "__main__":
    main()
