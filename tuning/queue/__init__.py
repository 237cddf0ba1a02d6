"""Celery: the queues, the jobs on them, and the worker process."""
