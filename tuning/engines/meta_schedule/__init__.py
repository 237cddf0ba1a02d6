"""The MetaSchedule engine: `python -m tuning.engines.meta_schedule`."""
