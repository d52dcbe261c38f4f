"""The commands of ``tensor-rpca``, one file each; cli.py puts them together."""
