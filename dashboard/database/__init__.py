"""Django's PostgreSQL backend with SQLAlchemy's connection pool, for the web process."""
