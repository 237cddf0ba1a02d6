"""`manage.py bench_engine`: our engine against stock TVM, on the same tasks, with the same options and seeds."""
