"""What tells how far the run's latencies can be trusted: records that are measured again."""
