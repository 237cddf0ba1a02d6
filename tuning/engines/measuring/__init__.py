"""Builds candidates and measures them, on this machine or on the devices of a tracker."""
