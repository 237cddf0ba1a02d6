"""`manage.py bench_web`: the running site, with runs of any size, queried over HTTP and watched over sockets."""
