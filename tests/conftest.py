from hypothesis import settings

# The suite draws the same examples on every machine and at every run;
# `pytest --hypothesis-profile=explore` searches further.
settings.register_profile("suite", deadline=None, max_examples=30, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, database=None)
settings.load_profile("suite")
