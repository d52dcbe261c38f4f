"""``python -m tensor_rpca`` is the command ``tensor-rpca``."""

from tensor_rpca.cli import main

if __name__ == "__main__":
    main()
