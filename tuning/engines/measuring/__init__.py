"""Building candidates and measuring them, on this machine or on a device of a tracker."""
