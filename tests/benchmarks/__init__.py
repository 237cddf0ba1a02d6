"""The benchmarks behind `manage.py bench_engine` and `bench_web`: an app of the checkout, not of the installed product."""
