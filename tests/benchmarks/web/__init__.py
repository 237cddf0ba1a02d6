"""`manage.py bench_web`: the running site, with runs as large as wished, asked over HTTP and watched over sockets."""
