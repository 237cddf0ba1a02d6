"""This machine makes itself known; admins drain, resume and forget machines."""
