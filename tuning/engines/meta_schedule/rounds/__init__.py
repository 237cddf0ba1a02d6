"""What became of each round: where its time went, and how well the cost model ranked its candidates."""
