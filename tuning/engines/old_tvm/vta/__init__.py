"""AutoTVM for VTA: the interpreter's own VTA build compiles, simulates or reaches the board. Nothing of VTA is in here."""
