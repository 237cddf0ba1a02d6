"""How a run went, besides its trials: what its page shows of its time, its cost model and its machine."""
