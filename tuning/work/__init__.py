"""What jobs do: supervise engines, record measurements, build and prove libraries, extract tasks."""
