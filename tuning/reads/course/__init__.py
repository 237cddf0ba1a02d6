"""How a run went, besides its trials: where its time went, what its cost model knew, and what the machine was like."""
