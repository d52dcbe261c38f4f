"""Side by side, as ratios within one run: ``make bench`` writes docs/benchmarks.md."""
