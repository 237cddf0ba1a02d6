"""Telling others what was committed: watching browsers, and the addresses of webhooks."""
