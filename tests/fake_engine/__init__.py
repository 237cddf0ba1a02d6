"""An engine that replays a script. See `engine`."""
