"""The same requests to other dashboards for tuning, each installed by the user in its own environment."""
