"""Django's PostgreSQL backend with a connection pool, for the web process."""
