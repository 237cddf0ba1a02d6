"""The same questions to what else shows tuning, each in an environment of its own that the user made."""
