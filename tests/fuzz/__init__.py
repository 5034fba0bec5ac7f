"""Fuzzing: inputs nobody would write, for everything that reads what others wrote. `python -m fuzz` runs it.

Rule: a target is a function of bytes that raises if something is wrong with them. What it found is kept as a file in
`tests/fuzz_cases/<target>` and checked by every run of the tests from then on (tests/test_fuzz.py).
"""
