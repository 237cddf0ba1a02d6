"""One file with everything that a site must not lose, made while runs tune, and the way back from it."""
