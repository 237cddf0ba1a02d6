"""What records of auto_scheduler and AutoTVM tell of their schedules. No TVM, no Django."""
