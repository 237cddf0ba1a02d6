"""Programs that build and prove libraries with an older TVM, in place of those of `tuning.engines.oneshot`."""
