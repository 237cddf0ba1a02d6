"""What a measuring process and its supervisor share, and when machines are equal; no TVM."""
