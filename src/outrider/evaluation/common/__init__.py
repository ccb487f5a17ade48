"""What several benchmarks share: ratios, plots, and models at another machine's pace."""
