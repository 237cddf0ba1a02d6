"""An engine that replays a script: see `engine`."""
