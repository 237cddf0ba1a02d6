"""What earlier runs found: their records, and their schedules adapted to similar tasks."""
