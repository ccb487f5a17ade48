# SPDX-License-Identifier: Apache-2.0
"""What several benchmarks share: ratios, plots, and models at another machine's pace."""
