"""The mathematics of acceptance: pure functions, proved by enumeration and by statistics."""
