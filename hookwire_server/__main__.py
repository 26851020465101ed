"""Run the command ``hookwire`` as ``python -m hookwire_server``."""

from app.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
