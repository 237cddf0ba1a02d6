"""How requests are served, whatever page they ask for: limits, sign-in, caching, streaming."""
