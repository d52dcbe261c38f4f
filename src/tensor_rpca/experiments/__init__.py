"""The paper's tables and figures, rerun; one file an experiment."""
